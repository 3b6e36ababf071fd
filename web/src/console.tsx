// SPDX-License-Identifier: Apache-2.0
// The frame around the pages: title, navigation, whether the daemon answers.
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { setLink } from './api';
import { useLink, useStatus, wakeAll } from './feed';
import * as format from './format';
import { visible } from './names';
import { BrowsePage } from './page_browse';
import { CachePage } from './page_cache';
import { HealthPage } from './page_health';
import { JobsPage } from './page_jobs';
import { MountsPage } from './page_mounts';
import { OverviewPage } from './page_overview';
import { RequestsPage } from './page_requests';
import { PAGES, pageLink, TITLES, useRoute } from './route';
import type { Route } from './route';
import { keepToken, takeToken, token, tokenIn } from './token';
import type { Status } from './types';

function PageOf(props: { route: Route }) {
  switch (props.route.page) {
    case 'mounts': return <MountsPage />;
    case 'cache': return <CachePage />;
    case 'jobs': return <JobsPage />;
    case 'browse': return <BrowsePage path={props.route.path} key={props.route.path} />;
    case 'requests': return <RequestsPage />;
    case 'health': return <HealthPage />;
    case 'unknown': return <UnknownPage />;
    default: return <OverviewPage />;
  }
}

function UnknownPage() {
  return (
    <div class="notice" role="alert">
      <strong>The console has no page <code>{visible(window.location.hash)}</code>.</strong>{' '}
      It may be of another version, or mistyped. The pages are in the navigation;{' '}
      <a href={pageLink('overview')}>Overview</a> is the first.
    </div>
  );
}

function Daemon(props: { status: Status | undefined; lost: boolean }) {
  const { status, lost } = props;
  const state = lost ? 'no answer' : status ? 'running' : 'asking';
  return (
    <p class="daemon">
      <span class={`lamp ${lost ? 'bad' : status ? 'ok' : ''}`}>{state}</span>
      {status && !lost && (
        <span class="about">
          leat {status.version}, pid {status.pid}, up {format.duration(status.uptime_seconds)}
        </span>
      )}
      <span class="about">{window.location.host}</span>
    </p>
  );
}

function Lost() {
  return (
    <div class="notice bad" role="alert" id="lost">
      <strong>No daemon answers at {window.location.host}.</strong> The page retries every two
      seconds, and this page goes on as soon as one does. What is below is what was known last. On
      the host, <code>leat status</code> says whether a daemon runs; the next mount starts
      one. If you came through ssh, look whether that connection still stands.
    </div>
  );
}

function TokenForm(props: { refused: boolean; onToken: () => void }) {
  const [wrong, setWrong] = useState(false);
  const use = (event: Event) => {
    event.preventDefault();
    const field = (event.target as HTMLFormElement).elements.namedItem('token') as HTMLInputElement;
    const found = tokenIn(field.value.trim());
    setWrong(!found);
    if (!found) {
      field.focus();
      return;
    }
    keepToken(found);
    props.onToken();
  };
  return (
    <main id="page" class="gate" tabIndex={-1}>
      <h1>Leat</h1>
      <p class={props.refused ? 'notice bad' : 'notice'} role="alert">
        {props.refused
          ? <><strong>The daemon does not take this token.</strong> It may be another user's, or the
            file with the token was replaced.</>
          : <><strong>This page needs the daemon's token.</strong> Only the user who runs the daemon
            has it.</>}
      </p>
      <p>On the host, as that user:</p>
      <pre><code>leat console</code></pre>
      <p>prints this page's address with the token. Open that address, or paste it here; it is kept
        for as long as this tab is open.</p>
      <form onSubmit={use}>
        <label for="token">Address or token</label>
        <input id="token" name="token" type="password" autocomplete="off" spellcheck={false}
          aria-describedby={wrong ? 'wrong' : undefined} aria-invalid={wrong} />
        <button type="submit" class="primary">Use it</button>
        {wrong && <p id="wrong" class="bad" role="alert">That is neither: a token is 64 hexadecimal
          digits.</p>}
      </form>
    </main>
  );
}

function Frame() {
  const route = useRoute();
  const link = useLink();
  const { value: status } = useStatus(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${TITLES[route.page]} \u00b7 Leat`;
    if (!first.current) heading.current?.focus();
    first.current = false;
  }, [route.page, route.path]);
  const lost = link === 'lost';
  return (
    <>
      <a class="skip" href="#page" onClick={(event) => {
        event.preventDefault();
        heading.current?.focus();
      }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href="#/overview">
          <img src="/icon.svg" alt="" width="22" height="22" />Leat
        </a>
        <Daemon status={status} lost={lost} />
      </header>
      <nav class="pages" aria-label="Pages">
        <ul>
          {PAGES.map((page) => (
            <li key={page}>
              <a href={pageLink(page)} aria-current={page === route.page ? 'page' : undefined}>
                {TITLES[page]}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="page" class={lost ? 'stale' : ''}>
        <h1 ref={heading} tabIndex={-1}>{TITLES[route.page]}</h1>
        {lost && <Lost />}
        <PageOf route={route} />
      </main>
    </>
  );
}

function Console() {
  const link = useLink();
  const [has, setHas] = useState(token() !== '');
  const start = () => {
    setLink('asking');
    setHas(true);
    wakeAll();
  };
  useEffect(() => {
    // Somebody pasted an address with a token into an open tab.
    const taken = () => {
      if (!takeToken()) return;
      start();
      window.dispatchEvent(new HashChangeEvent('hashchange'));
    };
    window.addEventListener('hashchange', taken);
    return () => window.removeEventListener('hashchange', taken);
  }, []);
  if (!has || link === 'denied') return <TokenForm refused={has} onToken={start} />;
  return <Frame />;
}

takeToken();
if (window.location.hash === '' || window.location.hash === '#') {
  window.history.replaceState(null, '', pageLink('overview'));
}
render(<Console />, document.getElementById('console') as HTMLElement);
