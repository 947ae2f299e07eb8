/* SPDX-License-Identifier: MIT */
/*
 * test_compat.c - this release and the one before (tests/previous) together: library and daemon,
 * daemons as peers, upgrades from either to the other under load. ctest runs all of it with this
 * library, and once more with the previous one.
 */
#include "daemon/peer/wire/message.h"
#include "tests/integration/chan_stream.h"
#include "tests/integration/far_load.h"
#include "tests/integration/upgrade_load.h"
#include "tests/integration/upgrades.h"
#include "tests/support/client.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char older[512], ours[512], next[512], later[512]; /* daemons */

/* Which library this is, so that nobody tests the wrong one. */
static bool library_is_older(void) {
    const char *path = getenv("LD_LIBRARY_PATH");
    bool wanted = path && strstr(path, "/previous/");
    Dl_info info;
    CHECK(dladdr((void *)(uintptr_t)rdmad_open, &info) && info.dli_fname, "whose is rdmad_open?");
    bool is = strstr(info.dli_fname, "/previous/") != NULL;
    CHECK(is == wanted, "the library is %s", info.dli_fname);
    return is;
}

static void need_older(void) {
    build_path("previous/now/build/daemon/rdmad", older, sizeof(older));
    build_path("daemon/rdmad", ours, sizeof(ours));
    build_path("tests/rdmad_next", next, sizeof(next));
    build_path("tests/rdmad_later", later, sizeof(later));
    if (access(older, X_OK))
        skip("the previous release was not built; build_previous says why");
    load_of_before = true;
    load_by_before = library_is_older();
}

/* ---- library and daemon ---------------------------------------------------------------------- */

/* SIGTERM and a start of the other, with all kinds of ops under way. */
static void restarts_as_either_are_a_pause(void) {
    need_older();
    need_hole_guard();
    printf("  with the %s library\n", load_by_before ? "previous" : "present");
    tdaemon_use(older);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct load *l = load_start(d);
    const char *const turn[] = {ours, older, ours, older};
    for (unsigned i = 0; i < 4; i++) {
        tdaemon_end(d);
        tdaemon_use(turn[i]);
        tdaemon_restart(d);
        load_expect_resumed(l);
    }
    load_end(l);
    tdaemon_stop(d);
}

enum { TURNS = 8, UPGRADES_MOST = 500 }; /* of releases, and of turns in all */

/* Each release of a row comes by once at least. */
static unsigned upgrades_count(void) {
    unsigned n = test_count(50);
    CHECK(n <= UPGRADES_MOST, "no room for so many upgrades");
    return n > TURNS ? n : TURNS;
}

/* The program file is exchanged, as a package does, and rdmactl upgrade asked for; by hand of an
 * operator whose rdmactl is of this release. */
static void upgrades_to_either_are_a_pause(void) {
    static double ms[UPGRADES_MOST];
    const unsigned n = upgrades_count();
    struct program_file file;
    need_older();
    need_hole_guard();
    program_file_make(&file, older);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct load *l = load_start(d);
    /* To this one and on, and back; an upgrade to the same is one, too. */
    const char *const turn[TURNS] = {ours, next, ours, older, older, next, older, ours};
    for (unsigned i = 0; i < n; i++) {
        program_file_put(&file, turn[i % TURNS]);
        ms[i] = upgrade_now(d);
        program_file_expect(&file, d);
        load_expect_resumed(l);
    }
    load_end(l);
    print_times("upgrades between releases", ms, n);
    tdaemon_stop(d);
    program_file_remove(&file);
}

/* ---- daemons as peers ------------------------------------------------------------------------ */

struct cluster {
    struct far_pair p;
    struct far_load *load;
    struct chan_stream *stream[2]; /* there and back */
};

static void cluster_up(struct cluster *c) {
    far_pair_up(&c->p, "{}", 0, 1);
    c->load = far_load_start(&c->p);
    c->stream[0] = chan_stream_start(c->p.near, c->p.far, false);
    c->stream[1] = chan_stream_start(c->p.far, c->p.near, false);
}

static void cluster_works(struct cluster *c, const char *when) {
    for (unsigned i = 0; i < 2; i++)
        chan_stream_expect_progress(c->stream[i], when);
    far_load_expect_progress(c->load);
    CHECK(far_load_longest_ms(c->load) > 0, "no addition was done %s", when);
}

static void cluster_down(struct cluster *c) {
    for (unsigned i = 0; i < 2; i++) {
        struct chan_stream_sum sum = chan_stream_stop(c->stream[i]);
        CHECK(!sum.unknown && !sum.untouched && sum.received, "messages were lost, or not sent");
    }
    CHECK(far_load_stop(c->load) == 0, "ops have failed");
    far_pair_expect_no_end(&c->p);
    far_pair_down(&c->p);
}

/* A cluster is upgraded node by node, and back: each pairing of owner's and lessee's daemon comes
 * by. */
static void a_cluster_changes_release_node_by_node(void) {
    struct program_file file;
    struct cluster c;
    static double ms[UPGRADES_MOST];
    const unsigned n = upgrades_count();
    need_older();
    program_file_make(&file, older);
    cluster_up(&c);
    cluster_works(&c, "when both are of the release before");
    struct tdaemon *const turn[TURNS] = {c.p.far,  c.p.near, c.p.near, c.p.far,
                                         c.p.near, c.p.far,  c.p.far,  c.p.near};
    const char *const to[TURNS] = {ours, ours, older, older, ours, ours, next, older};
    for (unsigned i = 0; i < n; i++) {
        program_file_put(&file, to[i % TURNS]);
        ms[i] = upgrade_now(turn[i % TURNS]);
        program_file_expect(&file, turn[i % TURNS]);
        cluster_works(&c, "after an upgrade");
    }
    cluster_down(&c);
    print_times("upgrades in a mixed cluster", ms, n);
    program_file_remove(&file);
}

/* The only peer's version, as d sees it. */
static int protocol_of_peer(struct tdaemon *d) {
    json_t *answer = tdaemon_call(d, "peer.show", NULL);
    const json_t *peer = json_array_get(json_object_get(answer, "peers"), 0);
    const json_t *protocol = json_object_get(peer, "protocol");
    int version = protocol ? (int)json_integer_value(protocol) : 7; /* one that does not say so */
    CHECK(peer, "there is no peer");
    json_decref(answer);
    return version;
}

/* From cold: whoever dials is of another release than whom it dials. */
static void they_meet(const char *near, const char *far, int in) {
    tdaemon_use(far);
    struct tdaemon *b = tdaemon_start("127.0.0.2", NULL);
    tdaemon_use(near);
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL);
    json_decref(tdaemon_call(a, "peer.add", json_pack("{s:s}", "address", tdaemon_listen(b))));
    int of_dialler = protocol_of_peer(a), of_acceptor = protocol_of_peer(b);
    CHECK(of_dialler == in && of_acceptor == in, "%s and %s talk in version %d and %d, not %d",
          near, far, of_dialler, of_acceptor, in);
    tdaemon_stop(a);
    tdaemon_stop(b);
}

static void peers_talk_in_the_highest_version_that_both_speak(void) {
    need_older();
    they_meet(older, ours, 7);
    they_meet(ours, older, 7);
    they_meet(next, older, 7);
    they_meet(older, next, 7);
    they_meet(next, ours, PEER_WIRE_VERSION);
    they_meet(ours, next, PEER_WIRE_VERSION);
    they_meet(next, next, PEER_WIRE_VERSION + 1);
    they_meet(later, next, PEER_WIRE_VERSION + 1);
    they_meet(next, later, PEER_WIRE_VERSION + 1);
}

/* ---- nothing in common ----------------------------------------------------------------------- */

static int greet(const char *program, const struct tdaemon *d, char *said, size_t size) {
    char path[512];
    const char *argv[] = {build_path(program, path, sizeof(path)), tdaemon_dir(d), NULL};
    return run_program(argv, said, size);
}

__attribute__((format(printf, 2, 3))) static void says(const char *said, const char *format, ...) {
    char words[256];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    CHECK(strstr(said, words), "\"%s\" does not say \"%s\"", said, words);
}

static void expect_serves_next(const char *daemon) {
    char said[1024];
    tdaemon_use(daemon);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    CHECK(greet("tests/greet_next", d, said, sizeof(said)) == 0, "%s: %s", daemon, said);
    if (daemon != next) {
        CHECK(greet("tests/greet_later", d, said, sizeof(said)) == 1, "%s: %s", daemon, said);
        says(said, "this librdmad speaks version %u; rdmad says: ", RDMAD_ABI_VERSION + 1);
    }
    tdaemon_stop(d);
}

static void a_later_client_agrees_with_any_daemon_or_says_both_ranges(void) {
    need_older();
    expect_serves_next(older);
    expect_serves_next(ours);
    expect_serves_next(next);
}

static void a_daemon_that_speaks_none_of_ours_says_what_to_do(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    need_older();
    unsigned proposes = library_is_older() ? 2 : RDMAD_ABI_VERSION;
    tdaemon_use(later);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    o.runtime_dir = tdaemon_dir(d);
    CHECK(rdmad_open(&o, &s) == RDMAD_E_VERSION, "%s", rdmad_last_error(NULL));
    says(rdmad_last_error(NULL),
         "proposes version %u of the client protocol, this rdmad speaks version %u; "
         "install a newer librdmad",
         proposes, RDMAD_ABI_VERSION + 1);
    tdaemon_stop(d);
}

/* near attaches to a lease of far; both logs and the program say why not. */
static void they_do_not_meet(const char *near, const char *far, const char *words) {
    rdmad_lease *l;
    tdaemon_use(far);
    struct tdaemon *b = tdaemon_start("127.0.0.2", NULL);
    char uri[RDMAD_URI_MAX + 1] = "rdmad://";
    strcat(strcat(uri, tdaemon_listen(b)), "/any");
    tdaemon_use(near);
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL);
    rdmad_session *s = client_open(a);
    CHECK(rdmad_lease_attach(s, uri, 0, &l) == RDMAD_E_VERSION, "%s", rdmad_last_error(s));
    says(rdmad_last_error(s), "%s", words);
    rdmad_close(s);
    tdaemon_stop(a);
    tdaemon_stop(b);
}

static void peers_with_nothing_in_common_hear_of_both_ranges(void) {
    need_older();
    they_do_not_meet(ours, later, "speaks versions 7 to 8 of the peers' protocol");
    they_do_not_meet(older, later, "speaks version 7 of the peers' protocol");
}

TEST_MAIN(CASE(restarts_as_either_are_a_pause), CASE(upgrades_to_either_are_a_pause),
          CASE(a_cluster_changes_release_node_by_node),
          CASE(peers_talk_in_the_highest_version_that_both_speak),
          CASE(a_later_client_agrees_with_any_daemon_or_says_both_ranges),
          CASE(a_daemon_that_speaks_none_of_ours_says_what_to_do),
          CASE(peers_with_nothing_in_common_hear_of_both_ranges))
