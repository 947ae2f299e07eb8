#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_packages.sh: the Debian packages, in a clean Debian with a systemd of its own (root.sh). They build, lintian
# has nothing to say, they install and start, transfer, are upgraded, restarted and killed while programs are at work,
# keep what an administrator changed, and are gone when they are purged. Then the system is clean again, and
# docs/TOUR.md is what somebody sees who begins there. At last programs are built there, from what rdmad-doc has and by
# librdmad-dev.
#
# What is upgraded from is the same build with a lower version and other settings; in tests/soak it is the commit
# before, built for that.
# shellcheck source=tests/packages/root.sh
. tests/packages/root.sh
root_enter "$0"
# shellcheck source=tests/integration/daemons.sh
. tests/integration/daemons.sh
trap 'code=$?; set +e; root_close; (exit "$code"); stop_all' EXIT
export TMPDIR=${TMPDIR:-/tmp}

step() { echo "* $*"; }

# quiet COMMAND...: what it says is shown only if it fails.
quiet() {
    "$@" >"$work/said.log" 2>&1 || fail "$* fails"
}

# old_packages: in $work/old.
old_packages() {
    local deb as
    if [ "${RDMAD_TEST_SCALE:-1}" != 1 ] && git cat-file -e HEAD~1:debian/control 2>/dev/null; then
        quiet nice -n 19 scripts/package.sh --commit HEAD~1 --version "$version~before" "$work/old"
        return
    fi
    for deb in "$work"/new/{rdmad,rdmactl,librdmad0}_*.deb; do
        as=$work/as
        rm -rf "$as"
        dpkg-deb -R "$deb" "$as"
        sed -i -e "s/^Version: .*/&~before/" -e "s/(= $version)/(= $version~before)/" "$as/DEBIAN/control"
        # Other settings than the next, so that it matters who changed them.
        [ ! -f "$as/etc/rdmad.json" ] || sed -i '1s,^,// The settings of an older version.\n,' "$as/etc/rdmad.json"
        dpkg-deb --root-owner-group -Znone -b "$as" "$work/old/" >/dev/null
    done
}

# install FOLDER [OPTION...]: what a machine that transfers has.
install() {
    local from=$1
    shift
    rm -rf "$root/packages"
    mkdir "$root/packages"
    cp "$work/$from"/{rdmad,rdmactl,librdmad0}_*.deb "$root/packages"
    quiet inside bash -c 'apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-confdef "$@" \
        /packages/*.deb </dev/null' install "$@"
    installed=$(<"$work/said.log")
    [ "$(inside dpkg --audit)" = "" ] || fail "half installed: $(inside dpkg --audit)"
}

property() { inside systemctl show -P "$1" "$2"; }
active() { inside systemctl is-active --quiet "$@"; }
answers() { inside rdmactl -d "$1" -j status >/dev/null 2>&1; }

# Every file there and what it is, but for what a package manager keeps and systemd writes.
all_files() {
    # shellcheck disable=SC2016 # expands there
    inside bash -c 'find / -xdev \( -path /packages -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache \
        -o -path /var/log/apt -o -path /var/log/dpkg.log -o -path /var/log/journal -o -path /var/lib/systemd/catalog \
        -o -path /var/lib/systemd/random-seed -o -path /tmp -o -path /var/tmp -o -path /etc/ld.so.cache \) -prune -o \
        -printf "%y %m %u:%g %p\n" | sort
        find /run -name "*rdmad*" -not -path "/run/credentials/*" | sort
        find /etc -type f -not -name ld.so.cache -print0 | sort -z | xargs -0 sha256sum'
}

# debian/tests/control as autopkgtest reads it: of each test (in tests_named) what it depends on, and as whom it runs.
declare -A depends runs
tests_named=() tests_run=()
while IFS='|' read -r name needs restrictions; do
    tests_named+=("$name")
    depends[$name]=${needs//,/ }
    runs[$name]=plain
    [[ $restrictions != *needs-root* ]] || runs[$name]=inside
    [ -x "debian/tests/$name" ] || fail "debian/tests/control names $name, which is no program there"
done < <(awk -v RS= '{
    split("", field)
    for (i = split($0, lines, "\n"); i; i--)
        if (match(lines[i], /: */))
            field[substr(lines[i], 1, RSTART - 1)] = substr(lines[i], RSTART + RLENGTH)
    for (i = split(field["Tests"], names, /[, ]+/); i; i--)
        print names[i] "|" field["Depends"] "|" field["Restrictions"]
}' debian/tests/control)
for file in debian/tests/*; do
    [[ $file = */control || " ${tests_named[*]} " = *" ${file##*/} "* ]] || fail "debian/tests/control does not name $file"
done

# autopkgtest NAME: with what its Depends say installed, and nothing else installed for it.
autopkgtest() {
    [ -n "${depends[$1]:-}" ] || fail "debian/tests/control has no test $1, or it depends on nothing"
    # shellcheck disable=SC2086 # names
    quiet inside dpkg --status ${depends[$1]}
    cp "debian/tests/$1" "$root/packages"
    quiet "${runs[$1]}" "/packages/$1"
    tail -n 1 "$work/said.log"
    tests_run+=("$1")
}

step "they build, and lintian has nothing to say"
version=$(dpkg-parsechangelog -S Version)
grep -q "^project(rdmad VERSION $version " CMakeLists.txt || fail "debian/changelog has another version than CMakeLists.txt: $version"
mkdir "$work/old"
DEB_BUILD_OPTIONS=noautodbgsym quiet nice -n 19 scripts/package.sh --tree "$RDMAD_BUILD/packages-check" # test_deploy uses them, too
ln -s "$RDMAD_BUILD/packages-check" "$work/new"
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$work"/new/*.changes >"$work/said.log" 2>&1 || fail "lintian has something to say"
else
    echo "skipped: there is no lintian here"
fi
while read -r package; do
    ls "$work/new/${package}"_*.deb >/dev/null 2>&1 || fail "no package $package was built"
done < <(sed -n 's/^Package: //p' debian/control)
mkdir "$work/doc"
dpkg-deb -x "$work"/new/rdmad-doc_*.deb "$work/doc"
tests/packages/doc_links.py "$work/doc/usr/share/doc/rdmad" || fail "pages of rdmad-doc link to what is not in it"
for file in examples/{hello.c,cpp/mailbox.cpp,python/mailbox.py,versus/write_verbs.c} deploy/{compose.yaml,kubernetes/base/daemonset.yaml} \
    docs/plots/local.svg docs/SECURITY.md SECURITY.md; do
    cmp "$file" "$work/doc/usr/share/doc/rdmad/$file" || fail "rdmad-doc has no $file as it is here"
done
old_packages
for name in old new; do
    dpkg-deb --fsys-tarfile "$work/$name"/rdmad_*.deb | tar -xO ./etc/rdmad.json >"$work/settings.$name"
done

root_make
root_open
root_boot
all_files >"$work/before"

step "install: all is started, and files go from daemon to daemon"
# There is no udev in such a root. One that writes down what it is asked to do; the socket is what tells that it runs.
printf '#!/bin/sh\necho "$*" >>/tmp/udevadm\n' >"$root/usr/bin/udevadm"
chmod 755 "$root/usr/bin/udevadm"
inside mkdir -p /run/udev
# shellcheck disable=SC2016 # perl expands it
inside perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "/run/udev/control", Listen => 1) or die $!'
install old
[ "$(inside cat /tmp/udevadm)" = $'control --reload\ntrigger --action=change --subsystem-match=infiniband_verbs' ] ||
    fail "udev was not told of the rule: $(inside cat /tmp/udevadm)"
active rdmad.socket rdmad.service || fail "not started: $(property StatusText rdmad.service)"
[ "$(inside stat -c '%U %a' /etc/rdmad/identity)" = "rdmad 700" ] || fail "the identity's directory: $(inside stat /etc/rdmad/identity)"
autopkgtest transfer # with a plain user's own daemons, beside the machine's
autopkgtest services
answers /run/rdmad-two || fail "the second instance does not answer"
quiet inside systemctl status rdmad.service
grep -q 'Active: active' "$work/said.log" || fail "systemctl does not say that it runs"
# Who is told to join the group may administer when he has.
inside usermod -aG rdmad nobody
quiet inside setpriv --reuid=nobody --regid=nogroup --init-groups rdmactl reload
inside gpasswd -d nobody rdmad >/dev/null

step "upgrade under load: the daemons become the new program, programs see no error, changed settings stay"
inside sh -c 'echo "{\"drain_timeout_ms\": 4321}" >/etc/rdmad.json'
before=$(property MainPID rdmad.service) before_two=$(property MainPID rdmad@two.service)
cp "$RDMAD_BUILD/tests/integration/steady_load" "$root/packages/load"
mkfifo "$work/end"
plain /packages/load /run/rdmad /run/rdmad-two <"$work/end" >"$work/load" 2>"$work/load.log" &
load=$!
pids+=("$load")
exec 7>"$work/end"
first_line "$work/load" $load >/dev/null
install new
kill -0 $load 2>/dev/null || fail "the load ended: $(<"$work/load.log")"
upgraded() { inside rdmactl -d "$1" -j status | grep -q '"upgraded": *{'; }
for run in /run/rdmad /run/rdmad-two; do
    upgraded "$run" || fail "$run: not upgraded: $installed"
done
[ "$(property MainPID rdmad.service)/$(property MainPID rdmad@two.service)" = "$before/$before_two" ] ||
    fail "other processes run: that was a restart"
programs=$(inside sh -c 'readlink /proc/[0-9]*/exe; true') # of one that has ended it says nothing
[ "$(grep -c '/rdmad$' <<<"$programs")" -ge 2 ] || fail "the daemons' programs are not seen: $programs"
lacks 'rdmad.*deleted' echo "$programs" || fail "an old program still runs: $programs"
exec 7>&-
wait $load || fail "a program noticed: $(<"$work/load.log")"
tail -n 1 "$work/load"
grep 'has followed' <<<"$installed" || fail "nothing was said of it: $installed"
[ "$(inside cat /etc/rdmad.json)" = '{"drain_timeout_ms": 4321}' ] || fail "changed settings were overwritten"
cmp -s "$work/settings.old" "$work/settings.new" || inside test -f /etc/rdmad.json.dpkg-dist ||
    fail "the package's settings are not beside them"
# shellcheck disable=SC2016 # dpkg-query expands it
[ "$(inside dpkg-query -W -f '${Version}' rdmad)" = "$version" ] || fail "the version is $(inside dpkg-query -W rdmad)"

step "metrics for a scraper elsewhere: as docs/OPERATIONS.md says, by systemd and from whom it names only"
# scrape ADDRESS: what a scraper there is told.
scrape() {
    # shellcheck disable=SC2016 # perl expands it
    inside perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:9472", LocalAddr => $ARGV[0], Timeout => 3)
        or exit 1; print $s "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"; print while <$s>' "$1"
}
inside sh -c 'mkdir /etc/rdmad.json.d && echo "{\"metrics\": {\"listen\": \"unix\"}}" >/etc/rdmad.json.d/metrics.json
    cp /usr/share/rdmad/prometheus/rdmad-metrics.* /etc/systemd/system/
    sed -i "s/=192.0.2.1:/=127.0.0.1:/; s/=192.0.2.9$/=127.0.0.2/" /etc/systemd/system/rdmad-metrics.socket'
inside systemctl --quiet restart rdmad.service
inside systemctl --quiet enable --now rdmad-metrics.socket
scrape 127.0.0.2 >"$work/said.log" || fail "the scraper is not heard"
grep -q '^rdmad_sessions ' "$work/said.log" || fail "no metrics"
if scrape 127.0.0.3 | grep -q .; then fail "another is heard, too"; fi
scrape 127.0.0.2 >"$work/said.log" || fail "the scraper is not heard any more, so nothing is known of another"
inside systemctl --quiet disable --now rdmad-metrics.socket
inside sh -c 'systemctl stop rdmad-metrics.service; rm -r /etc/rdmad.json.d /etc/systemd/system/rdmad-metrics.*; systemctl daemon-reload'

step "restarts and kills under load: programs go on in new processes, as confined as the first"
# under_load [killed] COMMAND...: for each daemon COMMAND UNIT makes another process of it, at which the load goes on.
under_load() {
    local unit whose load killed=()
    [ "$1" != killed ] || { killed=(killed) && shift; }
    rm -f "$work/load" # or "begun" could be the word of the load before
    plain /packages/load /run/rdmad /run/rdmad-two "${killed[@]}" <"$work/end" >"$work/load" 2>"$work/load.log" &
    load=$!
    pids+=("$load")
    exec 7>"$work/end"
    first_line "$work/load" $load >/dev/null
    while read -r unit whose; do
        before=$(property MainPID "$unit")
        inside "$@" "$unit"
        goes_on() {
            kill -0 $load 2>/dev/null || fail "$* $unit: a program noticed: $(<"$work/load.log")"
            grep -q "^$whose resumed" "$work/load"
        }
        eventually goes_on "$@"
        [ "$(property MainPID "$unit")" != "$before" ] || fail "$* $unit: it is the same process"
        inside grep -q '^Seccomp:[[:space:]]*2$' "/proc/$(property MainPID "$unit")/status" || fail "$unit: no filter"
    done <<<$'rdmad.service owner\nrdmad@two.service lessee'
    exec 7>&-
    wait $load || fail "$*: a program noticed: $(<"$work/load.log")"
    tail -n 1 "$work/load"
}
cp "$RDMAD_BUILD/tests/integration/steady_load" "$root/packages/load" # with the old packages it went
under_load systemctl restart
under_load killed systemctl kill -s KILL

step "settings that are wrong to the new version: the daemon stays as it is, and it is said"
inside sh -c 'echo "{\"workers\": \"many\"}" >/etc/rdmad.json'
install new --reinstall
grep -q 'goes on with its old program: .*workers' <<<"$installed" || fail "nothing was said: $installed"
answers /run/rdmad || fail "the daemon does not answer"
inside sh -c 'echo "{\"drain_timeout_ms\": 4321}" >/etc/rdmad.json'

step "what an administrator stopped and disabled stays so"
inside systemctl --quiet disable --now rdmad.service rdmad.socket
install new --reinstall
if active rdmad.service || active rdmad.socket; then fail "it was started"; fi
[ "$(inside systemctl is-enabled rdmad.service)" = disabled ] || fail "it was enabled"
inside systemctl --quiet enable --now rdmad.service rdmad.socket
answers /run/rdmad || fail "the daemon does not answer"
inside rdmactl cluster init --name one --address 127.0.0.1:7471 >/dev/null

step "remove: nothing runs, settings and identity stay"
quiet inside apt-get remove -q -y rdmad rdmactl librdmad0
running=$(inside sh -c 'cat /proc/[0-9]*/comm; true') # of one that has ended it says nothing
grep -q '^systemd' <<<"$running" || fail "what runs is not seen: $running"
lacks rdmad echo "$running" || fail "it still runs: $running"
lacks . inside find /run -ignore_readdir_race -name '*rdmad*' -not -path '/run/credentials/*' ||
    fail "left in /run, or not looked for: $(<"$work/lacks")"
inside tail -n 1 /tmp/udevadm | grep -q '^trigger --action=add ' || fail "the devices are left as the rule had them"
inside test -f /etc/rdmad.json || fail "the settings are gone"
inside test -f /etc/rdmad/identity/node.key || fail "the identity is gone"

step "purge: nothing is left but the user"
quiet inside apt-get purge -q -y rdmad
quiet inside apt-get autoremove --purge -q -y
rm "$root/usr/bin/udevadm"
all_files >"$work/after"
diff "$work/before" "$work/after" >"$work/diff" || [ $? = 1 ] || fail "they cannot be compared"
# The user stays, and the times at which such files were changed.
if grep '^[<>]' "$work/diff" | grep -vE '[ /](passwd|group|shadow|gshadow|subuid|subgid)-?$' >"$work/left.log"; then
    fail "left behind (>) or taken along (<)"
fi

step "the tour, from the packages alone: all is as docs/TOUR.md says"
rm -rf "$root/packages"
mkdir "$root/packages"
cp "$work"/new/{rdmad,rdmactl,librdmad0}_*.deb scripts/tour.sh "$root/packages"
inside bash -c 'cd /packages && exec ./tour.sh --installed' >"$work/tour" 2>"$work/tour.log" ||
    fail "the tour ends early, after: $(tail -n 5 "$work/tour")"
diff -u docs/TOUR.md "$work/tour" >"$work/said.log" ||
    fail "docs/TOUR.md is not what the packages do (+)"

step "programs: those of rdmad-doc build and run with librdmad-dev, and with python3-rdmad"
for name in build python; do
    wanted=()
    for package in ${depends[$name]}; do
        if ls "$work/new/${package}"_*.deb >/dev/null 2>&1; then
            cp "$work/new/${package}"_*.deb "$root/packages"
            wanted+=("/packages/$(basename "$work/new/${package}"_*.deb)")
        else
            wanted+=("$package")
        fi
    done
    # shellcheck disable=SC2016 # expands there
    quiet inside bash -c 'apt-get install -q -y --no-install-recommends "$@" </dev/null' install "${wanted[@]}"
    autopkgtest "$name"
done
for name in "${tests_named[@]}"; do
    [[ " ${tests_run[*]} " = *" $name "* ]] || fail "debian/tests/control names $name, and nobody has run it"
done
echo "built, installed, upgraded and restarted under load, removed, purged, toured, and built with"
