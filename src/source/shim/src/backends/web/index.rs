// SPDX-License-Identifier: Apache-2.0
//! Index pages that web servers show of their directories. Links are resolved as URLs (RFC 3986,
//! 5.2); a name is a link that leads one step into the directory.
use percent_encoding::percent_decode_str;

use crate::core::failure::{Code, Failure};

/// Titles of the pages of nginx, Apache, lighttpd, Python, Jetty and others.
const TITLES: [&str; 3] = ["index of", "directory listing", "directory:"];
/// Marks anywhere in a page: Caddy's footer; IIS.
const MARKS: [&str; 2] = ["caddyserver.com", "[to parent directory]"];
/// Root element of a listing of S3.
const S3_LISTING: &str = "<listbucketresult";

/// A page and its URL.
pub struct IndexPage<'a> {
    pub host: &'a str,
    /// Path of the directory, encoded; ends in '/'.
    pub path: &'a str,
    pub body: &'a str,
}

impl IndexPage<'_> {
    /// The names directly in the directory, in no order; those of directories end in '/'.
    pub fn names(&self, is_json: bool) -> Result<Vec<String>, Failure> {
        let lower = self.body.to_ascii_lowercase();
        if is_json {
            return names_of_json(self.body).ok_or_else(no_index);
        }
        if lower.contains(S3_LISTING) {
            return Err(Failure::new(
                Code::Unsupported,
                "the server answers with the listing of an S3 bucket; mount it as \
                 s3://BUCKET/PREFIX, with the options endpoint and, for a public one, \
                 anonymous=true",
            ));
        }
        let head = &lower[..lower.find("<a ").unwrap_or(lower.len())];
        let is_index = TITLES.iter().any(|title| head.contains(title))
            || MARKS.iter().any(|mark| lower.contains(mark));
        match is_index {
            true => self.names_of_links(&lower),
            false => Err(no_index()),
        }
    }

    fn names_of_links(&self, lower: &str) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        let mut others = Vec::new();
        for link in links(self.body, lower) {
            match self.classify(&link) {
                LinkTarget::Child(name) => names.push(name),
                LinkTarget::OtherDirectory => others.push(link),
                LinkTarget::Ignored => {}
            }
        }
        match others.first() {
            Some(example) if names.is_empty() => {
                let example: String = example.chars().take(100).collect();
                let message = format!(
                    "none of the {} links of the server's index leads into this directory ({}), \
                     the first is '{example}'; mount the URL that the links belong to",
                    others.len(),
                    self.path
                );
                Err(Failure::new(Code::Unsupported, message))
            }
            _ => Ok(names),
        }
    }

    fn classify(&self, link: &str) -> LinkTarget {
        let link = link.split('#').next().unwrap_or_default();
        let target = link.split('?').next().unwrap_or_default();
        let path = match self.path_on_host(target) {
            Some("") => return LinkTarget::Ignored,
            Some(path) => path,
            None => return LinkTarget::Ignored,
        };
        let here = components(self.path);
        let (steps, is_directory) = match path.starts_with('/') {
            true => resolve(Vec::new(), path),
            false => resolve(here.clone(), path),
        };
        if here.starts_with(&steps) {
            return LinkTarget::Ignored;
        }
        let into = steps.strip_prefix(here.as_slice());
        match into {
            Some([name]) => match String::from_utf8(name.clone()) {
                Ok(name) if is_directory => LinkTarget::Child(format!("{name}/")),
                Ok(name) => LinkTarget::Child(name),
                Err(_) => LinkTarget::Ignored,
            },
            _ => LinkTarget::OtherDirectory,
        }
    }

    /// Returns the path of a link, without scheme and host; None if these are others.
    fn path_on_host<'l>(&self, link: &'l str) -> Option<&'l str> {
        let rest = match scheme_of(link) {
            None => link,
            Some(scheme) if matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") => {
                &link[scheme.len() + 1..]
            }
            Some(_) => return None,
        };
        let Some(with_host) = rest.strip_prefix("//") else {
            return Some(rest);
        };
        let end = with_host.find('/').unwrap_or(with_host.len());
        let (host, path) = with_host.split_at(end);
        let is_here = host.eq_ignore_ascii_case(self.host);
        is_here.then_some(if path.is_empty() { "/" } else { path })
    }
}

enum LinkTarget {
    /// Directly in the directory.
    Child(String),
    /// The directory itself, one above it, another server, a script.
    Ignored,
    /// On this server, but none of these.
    OtherDirectory,
}

fn no_index() -> Failure {
    Failure::new(
        Code::Unsupported,
        "the server shows no index of this directory; a file in it can be read by its name",
    )
}

/// RFC 3986, 3.1.
fn scheme_of(link: &str) -> Option<&str> {
    let (scheme, _) = link.split_once(':')?;
    let mut bytes = scheme.bytes();
    let is_scheme = bytes.next()?.is_ascii_alphabetic()
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

/// Decoded, without empty and dot components.
fn components(path: &str) -> Vec<Vec<u8>> {
    resolve(Vec::new(), path).0
}

/// RFC 3986, 5.2.4. The second value: it ends in a slash.
fn resolve(mut steps: Vec<Vec<u8>>, path: &str) -> (Vec<Vec<u8>>, bool) {
    let mut is_directory = path.ends_with('/');
    for component in path.split('/') {
        let component: Vec<u8> = percent_decode_str(component).collect();
        is_directory = match component.as_slice() {
            b"" => continue,
            b"." => true,
            b".." => {
                steps.pop();
                true
            }
            _ => {
                steps.push(component);
                path.ends_with('/')
            }
        };
    }
    (steps, is_directory)
}

/// The targets of the links of a page. `lower` is the page in small letters.
fn links(body: &str, lower: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut at = 0;
    while let Some(found) = lower[at..].find("<a") {
        let start = at + found + 2;
        let Some(size) = lower[start..].find('>') else {
            break;
        };
        at = start + size;
        if lower[start..].starts_with(|c: char| c.is_ascii_whitespace()) {
            let target = attribute(&body[start..at], &lower[start..at], "href");
            links.extend(target.map(unescaped));
        }
    }
    links
}

/// The value of an attribute of a tag (HTML, 13.1.2.3).
fn attribute<'a>(tag: &'a str, lower: &str, name: &str) -> Option<&'a str> {
    let mut at = 0;
    loop {
        let found = at + lower[at..].find(name)?;
        at = found + name.len();
        let is_whole = lower[..found].ends_with(|c: char| c.is_ascii_whitespace());
        let rest = tag[at..].trim_ascii_start();
        let Some(value) = rest.strip_prefix('=').filter(|_| is_whole) else {
            continue;
        };
        let value = value.trim_ascii_start();
        return match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next(),
            _ => value.split_ascii_whitespace().next(),
        };
    }
}

/// Decodes the references in attributes (HTML, 13.1.4): numbers, and those that a quoted URL needs.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.trim();
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let reference = after.split_once(';').filter(|(name, _)| name.len() <= 8);
        match reference.and_then(|(name, left)| Some((character(name)?, left))) {
            Some((character, left)) => {
                plain.push(character);
                rest = left;
            }
            None => {
                plain.push('&');
                rest = after;
            }
        }
    }
    plain + rest
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?);
    }
    Some(match name {
        "quot" => '"',
        "apos" => '\'',
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        _ => return None,
    })
}

/// nginx: [{"name": …, "type": "file" | "directory", …}, …]. Caddy: [{"name": …, "is_dir": …}, …]
fn names_of_json(body: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Item {
        name: String,
        #[serde(default)]
        r#type: String,
        #[serde(default)]
        is_dir: bool,
    }
    let items: Option<Vec<Item>> = serde_json::from_str(body).ok()?;
    let named = items.unwrap_or_default().into_iter().map(|item| {
        let is_directory = item.is_dir || item.r#type == "directory";
        match is_directory && !item.name.ends_with('/') {
            true => format!("{}/", item.name),
            false => item.name,
        }
    });
    Some(named.collect())
}
