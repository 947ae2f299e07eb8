#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_site.sh: scripts/site.sh makes the site; each link in it goes somewhere, to a heading that is there; nothing is
# loaded from elsewhere; each document and each manual page is in it and can be reached. And what finds that out finds
# links that are spoilt.
set -euo pipefail

work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-site.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    tail -n 20 "$work/said" 2>/dev/null || true
    exit 1
}
for program in cmark-gfm mandoc scdoc; do
    command -v $program >/dev/null || { echo "skipped: there is no $program"; exit 77; }
done
site=$work/site
export RDMAD_SITE_BUILD=no # others may be building
scripts/site.sh "$site" >"$work/said" 2>&1 || fail "scripts/site.sh"
tests/site_links.py "$site" >"$work/said" || fail "the site's links"
tail -n 1 "$work/said"

for page in docs/*.md; do
    [ -s "$site/${page%.md}.html" ] || fail "$page is not in the site"
done
for page in "$RDMAD_BUILD"/docs/*.[1-8] "$RDMAD_BUILD"/docs/man?/*.?; do
    name=$(basename "$page")
    grep -q "\"[a-z_0-9.-]*\.html\">${name%.*}(${name##*.})</a>" "$site/man/index.html" || fail "$name is not in the list of manual pages"
done
grep -q '<a href="../man/rdmactl.8.html">rdmactl(8)</a>' "$site/docs/OPERATIONS.html" || fail "a manual page that is named is no link"

# Spoilt, one at a time: PAGE, what is done to it, what has to be said.
spoil() {
    cp "$site/$1" "$work/whole"
    sed -i "$2" "$site/$1"
    ! cmp -s "$work/whole" "$site/$1" || fail "nothing was spoilt: $2"
    ! tests/site_links.py "$site" >"$work/said" || fail "nobody notices: $1: $2"
    grep -q "$3" "$work/said" || fail "not said of $1: $3"
    cp "$work/whole" "$site/$1"
}
spoil docs/OPERATIONS.html 's,"TOUR.html","TOURS.html",' 'OPERATIONS.html: a link to TOURS.html, which there is not'
spoil man/rdmad.8.html '0,/href="#SYNOPSIS"/s//href="#SYNOPSES"/' 'rdmad.8.html: a link to #SYNOPSES, and nothing there'
spoil index.html 's,<h1,<img src="https://example.org/x.png"><h1,' 'index.html: loads https://example.org/x.png'
spoil style.css '1s,$,@import "https://example.org/x.css";,' 'style.css: loads @import'
spoil docs/TOUR.html '0,/<h2 id="start">/s//<h2 id="look">/' 'TOUR.html: two things are called #look'
spoil docs/TOUR.html '0,/<\/h2>/s///' '<'
cp "$site/docs/TOUR.html" "$site/lost.html"
sed -i 's,"../,",g; s,"\([A-Z]*\.html\),"docs/\1,' "$site/lost.html"
! tests/site_links.py "$site" >"$work/said" || fail "nobody notices a page that nothing leads to"
grep -q 'lost.html: nothing leads there' "$work/said" || fail "not said: nothing leads to lost.html"

# A document with a link to nothing is no site.
mkdir "$work/source"
for file in *; do ln -s "$PWD/$file" "$work/source/$file"; done
rm "$work/source/README.md"
echo 'Read [this](docs/NOTHING.md).' | cat README.md - >"$work/source/README.md"
! PYTHONDONTWRITEBYTECODE=1 python3 docs/site/make.py "$work/source" "$RDMAD_BUILD/docs" "$work/no" 0 2>"$work/said" || fail "a link to nothing passes"
grep -q '^site: README.md: a link to docs/NOTHING.md, which there is not$' "$work/said" || fail "it does not say which link"

# What is no site is not taken away.
mkdir "$work/mine" && touch "$work/mine/thesis"
! scripts/site.sh "$work/mine" >"$work/said" 2>&1 || fail "files of somebody else's would be taken away"
[ -e "$work/mine/thesis" ] || fail "files of somebody else's were taken away"
