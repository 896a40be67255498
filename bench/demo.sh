#!/bin/sh
# The main job in front of your eyes: a fresh inbox with sample pages, the daemon until it is drained, what came out.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
demo=${1:-demo}
rm -rf "$demo"
mkdir -p "$demo"
demo=$(cd "$demo" && pwd)

inboxd init --config "$demo/inboxd.toml" --inbox "$demo/inbox" --state "$demo/state" --engine cpu
for page in en_report.png fr_pangram_scan.pdf de_notice_degraded.jpg ja_report.png da_notice_alpha.png zh-Hans_report.png \
  nl_notice_digital.pdf; do
  cp "$here/tests/samples/$page" "$demo/inbox/"
done
inboxd run --config "$demo/inboxd.toml" --until-drained

echo
echo "== beside the originals"
ls "$demo/inbox"
echo
echo "== $demo/inbox/en_report.png.md"
head -n 12 "$demo/inbox/en_report.png.md"
echo
echo "== inboxd sql"
inboxd sql --config "$demo/inboxd.toml" "
  SELECT f.name, f.state, f.pages, sum(p.chars) AS chars, round(avg(p.confidence), 3) AS confidence
  FROM v_files f JOIN v_pages p ON p.file = f.id GROUP BY f.id ORDER BY f.name"
