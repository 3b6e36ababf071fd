# SPDX-License-Identifier: Apache-2.0
"""Programs that people have read a mounted bucket and a local copy of it, and find the same.

Those that take long to install or to start are in tests/soak, which `make soak` runs.
"""

import pytest

from e2e.program_reads import READS
from e2e.programs import TESTS, copies_of_data, python_of

# All share one store, one mount and one data set.
pytestmark = pytest.mark.xdist_group("programs")


@pytest.fixture(scope="module")
def copies():
    with copies_of_data() as made:
        yield made


DIGESTS = "find . -type f -print0 | sort -z | xargs -0 sha256sum"

# Each is a script of bash in the folder. What a file system says of times, owners and the order of names
# is left out: a bucket has none, and says so (docs/semantics.md).
COMMANDS = {
    "tar": "tar -tf shards/000000.tar; tar -xzf archives/texts.tar.gz -C $OUT; cd $OUT; " + DIGESTS,
    "tar-create": "tar --sort=name --mtime=@0 --owner=0 --group=0 --mode=a=r -cf - texts | sha256sum",
    "unzip": "unzip -qt archives/texts.zip; unzip -q archives/texts.zip -d $OUT; cd $OUT; " + DIGESTS,
    "zip": "zip -qr $OUT/all.zip texts; unzip -q $OUT/all.zip -d $OUT/all; cd $OUT/all; " + DIGESTS,
    "gzip": "zcat texts/lines.json.gz | sha256sum; xzcat texts/lines.json.xz | sha256sum; "
            "bzcat texts/lines.json.bz2 | sha256sum",
    "cp": "cp -r . $OUT/copy; cd $OUT/copy; " + DIGESTS,
    "rsync": "rsync -r --checksum ./ $OUT/copy/; rsync -rcn --itemize-changes ./ $LOCAL/; "
             "cd $OUT/copy; " + DIGESTS,
    "find": "find . -type f -printf '%P %s\\n' | sort; find . -name '*.txt' -size +8k -links 1 | sort; "
            "find 'texts/topic 3' -type f -empty -o -name 'page-0[0-4].txt' | sort",
    "grep": "grep -rc 'sluice stone' texts | sort; grep -rlZ 'not easy' . | sort -z | tr '\\0' '\\n'",
    "sha256sum": DIGESTS,
    "md5sum": "find . -type f -exec md5sum {} + | sort >$OUT/sums; md5sum --quiet -c $OUT/sums; "
              "cat $OUT/sums",
    "diff": "diff -r . $LOCAL && echo the same",
    "cmp": "for name in arrays/* archives/*; do [ -d $name ] || cmp $name $LOCAL/$name; done; "
           "cmp -n 1000 -i 4999000 archives/noise.bin $LOCAL/archives/noise.bin && echo the same",
    "sort": "sort -t, -k3,3g tables/rows.csv | sha256sum; cut -d, -f2 tables/rows.csv | sort | uniq -c",
    "awk": "awk -F, '{ sum += $1 } END { print NR, sum }' tables/rows.csv; wc -lc 'texts/topic 1'/*.txt",
    "dd": "dd if=archives/noise.bin bs=4096 skip=700 count=33 status=none | sha256sum; "
          "tail -c 70000 archives/noise.bin | sha256sum; head -c 70000 archives/noise.bin | sha256sum; "
          "split -b 1000000 archives/noise.bin $OUT/part-; cat $OUT/part-* | sha256sum",
    "curl": "curl -s -r 100-4000000 \"file://$PWD/archives/noise.bin\" | sha256sum",
    "sqlite3": "sqlite3 'file:database/rows.db?mode=ro' 'pragma integrity_check; "
               "select word, count(*), sum(value) from rows group by word order by 2 desc, 1 limit 50'; "
               "sqlite3 'file:database/rows.db?immutable=1' \"select * from rows where word = 'word7'\"",
    "git": "export GIT_OPTIONAL_LOCKS=0; git -C repository log --stat --format='%H %s'; "
           "git -C repository status --porcelain; git -C repository fsck --strict; "
           "git -C repository diff --stat first; git clone -q repository $OUT/clone; "
           "git -C $OUT/clone rev-parse HEAD; cd $OUT/clone; rm -rf .git; " + DIGESTS,
    "ffprobe": "for name in media/clip.mp4 media/tone.wav pictures/clip.avi; do "
               "ffprobe -v error -show_streams -show_format -of json $name; done",
    "ffmpeg": "ffmpeg -v error -i media/clip.mp4 -f framemd5 -; ffmpeg -v error -i media/tone.wav -f md5 -; "
              "ffmpeg -v error -ss 5 -i media/clip.mp4 -frames:v 2 -f framemd5 -",
}


@pytest.mark.parametrize("script", COMMANDS.values(), ids=COMMANDS)
def test_a_command(copies, script):
    copies.compare(["bash", "-euo", "pipefail", "-c", script])


@pytest.mark.parametrize("name", READS)
def test_a_python_program(copies, name):
    copies.compare([python_of("programs"), TESTS / "e2e" / "program_reads.py", name, "ROOT"])
