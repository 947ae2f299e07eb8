/* SPDX-License-Identifier: MIT */
/*
 * test_history.c - programs under load write down what they do, while daemons are killed, stopped
 * and restarted at random; then history.py decides whether what they saw can have been.
 *
 * RDMAD_TEST_SEED, which is printed, draws the same faults again (scene.h). RDMAD_HISTORY_KEEP
 * names a directory to keep the records and the daemons' logs in: tests/history/check.py judges
 * them again.
 */
#include "tests/history/scene.h"

#include "tests/support/client.h"
#include "tests/support/harness.h"
#include "tests/support/proxy.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    USERS = 5,
    RINGERS = 2,
    READERS = 3,
    PROGRAMS = 1 + 2 + 2 + 1 + LESSEES + RINGERS + 1 + READERS + USERS,
    SECONDS = 10,
    LONGEST_S = 240
};

struct history {
    struct board *board;
    struct tdaemon *d[DAEMONS];
    char config[DAEMONS][256]; /* their files, to which they come back at each start */
    struct proxy *path;        /* from daemon 1 to daemon 0 */
    struct program program[PROGRAMS];
    pid_t pid[PROGRAMS];
    unsigned programs, first_user;
    struct record_book faults;
};

/* ---- who takes part -------------------------------------------------------------------------- */

static uint32_t next_client(struct board *b) {
    uint32_t client = __atomic_fetch_add(&b->clients, 1, __ATOMIC_SEQ_CST);
    CHECK(client < MOST_CLIENTS, "more than %d programs", MOST_CLIENTS);
    return client;
}

static void (*role_of(const struct history *h, unsigned which))(void *) {
    static void (*const roles[])(void *) = {
        owner_run,  receiver_run, receiver_run, sender_run, sender_run, lessor_run, lessee_run,
        lessee_run, ringer_run,   ringer_run,   cache_run,  reader_run, reader_run, reader_run};
    return which < h->first_user ? roles[which] : user_run;
}

static void start(struct history *h, unsigned which) {
    h->program[which].client = next_client(h->board);
    h->pid[which] = client_fork(role_of(h, which), &h->program[which]);
}

static void add(struct history *h, unsigned daemon, unsigned instance) {
    h->program[h->programs++] =
        (struct program){.board = h->board, .daemon = daemon, .instance = instance};
}

/* Of two that do the same one is at each daemon; one channel is within daemon 0, one comes in. */
static void cast(struct history *h) {
    add(h, 0, 0); /* owner */
    add(h, 0, 0); /* receivers */
    add(h, 0, 1);
    add(h, 0, 0); /* senders */
    add(h, 1, 1);
    add(h, 0, 0); /* lessor */
    add(h, 0, 0); /* lessees */
    add(h, 1, 1);
    add(h, 0, 0); /* ringers */
    add(h, 1, 1);
    add(h, 0, 0); /* cache */
    for (unsigned i = 0; i < READERS; i++)
        add(h, (i + 1) % DAEMONS, i);
    h->first_user = h->programs;
    for (unsigned i = 0; i < USERS; i++)
        add(h, i % DAEMONS, i);
}

/* Longer than by default: on a busy machine a daemon has taken six seconds to start. */
static unsigned return_ms(void) {
    unsigned slow = 5000 * test_patience();
    return slow > 20000 ? slow : 20000;
}

/* Impatient, so that what comes late comes after others. Its data port is the same in every life,
 * so that the path leads there; below those that the kernel gives out. The path is one on which
 * addresses are translated: daemon 0 sees daemon 1 come from another than it listens on, and may
 * dial that nevertheless. */
static struct tdaemon *start_daemon(struct history *h, unsigned which, const char *host) {
    char *path = h->config[which];
    snprintf(path, sizeof(h->config[which]), "%s/daemon%u.json", h->board->dir, which);
    FILE *f = fopen(path, "we");
    CHECK(f &&
              fprintf(f,
                      "{\"peer\": {\"ping_ms\": 100, \"dead_ms\": 400, \"dial_named\": true, "
                      "\"return_ms\": %u}, \"tcp\": {\"dead_peer_ms\": 400, \"data_port\": %u}}\n",
                      return_ms(), 10000 + (unsigned)getpid() % 20000) > 0 &&
              fclose(f) == 0,
          "%s: %s", path, strerror(errno));
    return tdaemon_start(host, (const char *[]){"--config", path, NULL});
}

static void make_board(struct history *h, enum lie lie) {
    static const char *const host[DAEMONS] = {"127.0.0.1", "127.0.0.2"};
    const char *keep = getenv("RDMAD_HISTORY_KEEP"), *tmp = getenv("TMPDIR");
    const int rights = PROT_READ | PROT_WRITE;
    struct board *b = mmap(NULL, sizeof(*b), rights, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(b != MAP_FAILED, "no board: %s", strerror(errno));
    h->board = b;
    b->lie = lie;
    b->seed = test_random();
    snprintf(b->dir, sizeof(b->dir), "%s/history.XXXXXX", keep ? keep : tmp ? tmp : "/tmp");
    CHECK(mkdtemp(b->dir), "%s: %s", b->dir, strerror(errno));
    snprintf(b->host, sizeof(b->host), "%s", host[0]);
    for (unsigned i = 0; i < DAEMONS; i++) {
        h->d[i] = start_daemon(h, i, host[i]);
        snprintf(b->runtime[i], sizeof(b->runtime[i]), "%s", tdaemon_dir(h->d[i]));
    }
    h->path = proxy_start(h->d[0]);
    snprintf(b->path, sizeof(b->path), "%s", proxy_host(h->path));
    b->begun_ns = record_now_ns();
}

static void history_begin(struct history *h, enum lie lie) {
    *h = (struct history){0};
    make_board(h, lie);
    record_open(&h->faults, h->board->dir, next_client(h->board));
    cast(h);
    start(h, 0);
    for (uint64_t since = now_ms(); !__atomic_load_n(&h->board->granted, __ATOMIC_SEQ_CST);
         sleep_ms(1))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "the owner does not grant");
    for (unsigned i = 1; i < h->programs; i++)
        start(h, i);
}

static void await(pid_t pid) {
    for (uint64_t since = now_ms(); client_running(pid); sleep_ms(2))
        CHECK(now_ms() - since < 3 * TEST_PATIENCE_MS, "program %d does not leave", (int)pid);
    client_expect_ok(pid);
}

/* The daemons' logs lie beside the records that are kept. */
static void keep_log(const struct history *h, unsigned daemon) {
    char path[512], lines[65536];
    size_t n;
    snprintf(path, sizeof(path), "%s/log", tdaemon_dir(h->d[daemon]));
    FILE *from = fopen(path, "re");
    snprintf(path, sizeof(path), "%s/daemon%u.log", h->board->dir, daemon);
    FILE *to = fopen(path, "we");
    CHECK(from && to, "%s: %s", path, strerror(errno));
    while ((n = fread(lines, 1, sizeof(lines), from)) > 0)
        CHECK(fwrite(lines, 1, n, to) == n, "%s: %s", path, strerror(errno));
    fclose(from);
    CHECK(fclose(to) == 0, "%s: %s", path, strerror(errno));
}

/* All leave but the owner, which then reads what there is. */
static void history_end(struct history *h) {
    __atomic_store_n(&h->board->stop, true, __ATOMIC_SEQ_CST);
    for (unsigned i = 1; i < h->programs; i++)
        await(h->pid[i]);
    __atomic_store_n(&h->board->finish, true, __ATOMIC_SEQ_CST);
    await(h->pid[0]);
    proxy_stop(h->path);
    for (unsigned i = 0; i < DAEMONS; i++) {
        if (getenv("RDMAD_HISTORY_KEEP"))
            keep_log(h, i);
        tdaemon_stop(h->d[i]);
    }
    record_close(&h->faults);
}

/* ---- what happens to them -------------------------------------------------------------------- */

static void take(struct tdaemon *d, enum record_fault what, unsigned ms) {
    if (what == FAULT_HANG || what == FAULT_HANG_KILL) {
        kill(tdaemon_pid(d), SIGSTOP);
        sleep_ms(ms);
    }
    if (what == FAULT_HANG)
        kill(tdaemon_pid(d), SIGCONT);
    else if (what == FAULT_END)
        tdaemon_end(d);
    else
        tdaemon_kill(d);
}

/* To one daemon, or to the one and then, before it is back, to the other. */
static void fault_daemons(struct history *h, enum record_fault what, unsigned which, unsigned ms) {
    struct record *r[DAEMONS];
    const unsigned first = which % DAEMONS, count = which < DAEMONS ? 1 : DAEMONS;
    for (unsigned i = 0; i < count; i++) {
        unsigned daemon = (first + i) % DAEMONS;
        r[i] = record_begin(&h->faults, RECORD_FAULT, what, daemon, ms);
        take(h->d[daemon], what, ms);
    }
    if (what != FAULT_HANG)
        sleep_ms(ms);
    for (unsigned i = 0; i < count; i++) {
        if (what != FAULT_HANG)
            tdaemon_restart(h->d[(first + i) % DAEMONS]);
        record_end(r[i], RECORD_DONE, 0, 0, 0);
    }
}

static void fault_client(struct history *h, unsigned which) {
    unsigned i = h->first_user + which;
    struct record *r =
        record_begin(&h->faults, RECORD_FAULT, FAULT_CLIENT, h->program[i].client, 0);
    CHECK(client_running(h->pid[i]), "program %u has ended by itself", h->program[i].client);
    client_kill(h->pid[i]);
    start(h, i);
    record_end(r, RECORD_DONE, 0, 0, 0);
}

static void fault_path(struct history *h, enum record_fault what, unsigned ms) {
    struct record *r = record_begin(&h->faults, RECORD_FAULT, what, 0, ms);
    if (what == FAULT_LATE) {
        proxy_hold(h->path);
        sleep_ms(ms);
        proxy_release(h->path);
    } else {
        proxy_cut(h->path);
    }
    record_end(r, RECORD_DONE, 0, 0, 0);
}

/* Each fault takes as many numbers as any, so one more or less of one kind moves none. Of six one
 * is of both daemons. */
static void one_fault(struct history *h) {
    static const enum record_fault faults[] = {
        FAULT_KILL, FAULT_KILL,   FAULT_KILL, FAULT_HANG, FAULT_HANG, FAULT_HANG_KILL,
        FAULT_END,  FAULT_CLIENT, FAULT_CUT,  FAULT_CUT,  FAULT_LATE, FAULT_LATE};
    const unsigned pause = 20 + (unsigned)(test_random() % 400);
    const enum record_fault what = faults[test_random() % (sizeof(faults) / sizeof(faults[0]))];
    const unsigned which = (unsigned)(test_random() % 12), user = (unsigned)(test_random() % USERS);
    const unsigned ms =
        (unsigned)(test_random() % (what == FAULT_HANG || what == FAULT_LATE ? 700 : 200));
    sleep_ms(pause);
    if (what == FAULT_CLIENT)
        fault_client(h, user);
    else if (what == FAULT_CUT || what == FAULT_LATE)
        fault_path(h, what, ms);
    else
        fault_daemons(h, what, which < 10 ? which % DAEMONS : which - 10 + DAEMONS, ms);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static int remove_records(const char *dir) {
    char path[512];
    for (unsigned i = 0; i < MOST_CLIENTS; i++) {
        snprintf(path, sizeof(path), "%s/%03u.rec", dir, i);
        if (unlink(path) != 0 && errno != ENOENT)
            return -1;
    }
    for (unsigned i = 0; i < DAEMONS; i++) {
        snprintf(path, sizeof(path), "%s/daemon%u.json", dir, i);
        if (unlink(path) != 0)
            return -1;
    }
    return rmdir(dir);
}

/* 0: the history is possible. */
static int judge(struct history *h, char *said, size_t size) {
    const char *source = getenv("RDMAD_SOURCE");
    char check[512];
    snprintf(check, sizeof(check), "%s/tests/history/check.py", source ? source : ".");
    CHECK(access(check, X_OK) == 0, "%s: %s: run it by ctest, or from the source's directory",
          check, strerror(errno));
    int rc = run_program((const char *[]){check, "--all", h->faults.used ? "--faults" : "--all",
                                          h->board->dir, NULL},
                         said, size);
    if (getenv("RDMAD_HISTORY_KEEP"))
        printf("  the records are in %s\n", h->board->dir);
    else
        CHECK(remove_records(h->board->dir) == 0, "%s: %s", h->board->dir, strerror(errno));
    munmap(h->board, sizeof(*h->board));
    return rc;
}

/* On a busy machine the programs may not have begun yet when others would be done. */
static void await_messages(const struct board *b) {
    for (uint64_t since = now_ms();; sleep_ms(10)) {
        unsigned heard = 0;
        for (unsigned i = 0; i < 2; i++)
            heard += __atomic_load_n(&b->heard[i], __ATOMIC_SEQ_CST);
        if (heard == 2 && __atomic_load_n(&b->cache_read, __ATOMIC_SEQ_CST))
            return;
        CHECK(now_ms() - since < TEST_PATIENCE_MS,
              "no message has come to %u services, or no get found anything", 2 - heard);
    }
}

static void what_was_seen_can_have_been(void) {
    struct history h;
    char said[16384];
    need_hole_guard();
    const unsigned asked = SECONDS * test_scale();
    const unsigned seconds = asked < LONGEST_S ? asked : LONGEST_S;
    history_begin(&h, LIE_NONE);
    await_messages(h.board);
    for (uint64_t until = now_ms() + 1000ull * seconds;
         now_ms() < until && __atomic_load_n(&h.board->clients, __ATOMIC_SEQ_CST) < MOST_CLIENTS;)
        one_fault(&h);
    history_end(&h);
    int rc = judge(&h, said, sizeof(said));
    CHECK(rc == 0, "%s", said);
    fputs(said, stdout);
}

/* ---- daemons that are killed under load ------------------------------------------------------ */

/* Bounds in full; a test fails at ten times each, for others may have the processors. */
enum { SERVES_MS = 1000, RESUMED_MS = 2000 };

static double ms_since(uint64_t ns) {
    return (double)(record_now_ns() - ns) / 1e6;
}

/* All programs of that daemon have gone on. Returns for how long the last of them was away. */
static uint32_t await_resumed(const struct history *h, unsigned daemon, const uint32_t *before) {
    const uint64_t since = now_ms();
    uint32_t longest = 0;
    for (unsigned i = 0; i < h->programs; i++) {
        const uint32_t client = h->program[i].client;
        if (h->program[i].daemon != daemon)
            continue;
        while (__atomic_load_n(&h->board->resumed[client], __ATOMIC_SEQ_CST) == before[client]) {
            CHECK(now_ms() - since < 10ull * RESUMED_MS * test_patience(),
                  "client %u at daemon %u does not go on", client, daemon);
            CHECK(client_running(h->pid[i]), "client %u has ended by itself", client);
            sleep_ms(1);
        }
        uint32_t away = h->board->away_ms[client];
        longest = away > longest ? away : longest;
    }
    return longest;
}

static void one_kill(struct history *h, unsigned daemon, double *serves_ms, double *resumed_ms) {
    uint32_t before[MOST_CLIENTS];
    const unsigned down_ms = (unsigned)(test_random() % 50);
    sleep_ms(50 + (unsigned)(test_random() % 200));
    memcpy(before, h->board->resumed, sizeof(before));
    struct record *r = record_begin(&h->faults, RECORD_FAULT, FAULT_KILL, daemon, down_ms);
    const uint64_t killed_ns = record_now_ns();
    tdaemon_kill(h->d[daemon]);
    sleep_ms(down_ms);
    const uint64_t started_ns = record_now_ns();
    tdaemon_restart(h->d[daemon]);
    *serves_ms = ms_since(started_ns);
    const double down = ms_since(killed_ns);
    record_end(r, RECORD_DONE, 0, 0, 0);
    const double away = await_resumed(h, daemon, before);
    *resumed_ms = away > down ? away - down : 0;
}

/* A session that is opened at the next daemon never goes on there. */
static void await_begun(const struct history *h) {
    for (uint64_t since = now_ms();; sleep_ms(1)) {
        unsigned begun = __atomic_load_n(&h->board->begun, __ATOMIC_SEQ_CST);
        if (begun == h->programs)
            return;
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "%u of %u programs have begun", begun,
              h->programs);
    }
}

static void killed_daemons_cost_a_moment_and_nothing_else(void) {
    enum { MOST = 2000 };
    static double serves_ms[MOST], resumed_ms[MOST];
    const unsigned n = test_count(200);
    struct history h;
    char said[16384];
    need_hole_guard();
    CHECK(n <= MOST, "no room for so many kills");
    history_begin(&h, LIE_NONE);
    await_begun(&h);
    for (unsigned i = 0; i < n; i++)
        one_kill(&h, (unsigned)(test_random() % DAEMONS), &serves_ms[i], &resumed_ms[i]);
    const struct board b = *h.board;
    history_end(&h);
    int rc = judge(&h, said, sizeof(said));
    const double serves = print_times("serving after", serves_ms, n),
                 resumed = print_times("all clients resumed after", resumed_ms, n);
    printf(
        "  %u handles ended, %u channels ended by a daemon, %u before they were accepted; %u times "
        "one went on after a send that failed\n",
        b.handles_ended, b.channels_lost, b.channels_unaccepted, b.channels_went_on);
    fputs(said, stdout);
    CHECK(rc == 0, "this cannot have been");
    CHECK(serves < 10. * SERVES_MS * test_patience(), "a daemon served after %.0f ms", serves);
    CHECK(resumed < 10. * RESUMED_MS * test_patience(), "clients went on after %.0f ms", resumed);
    CHECK(b.handles_ended == 0, "handles have not outlived their daemon");
    /* One of which an end was closed in just that moment may be missed (docs/ARCHITECTURE.md). */
    CHECK(b.channels_lost <= 1, "%u channels have not outlived their daemon", b.channels_lost);
}

/* ---- the whole way, from a program that lies to the verdict ---------------------------------- */

static int judge_a_lie(enum lie lie, unsigned ms, char *said, size_t size) {
    struct history h;
    history_begin(&h, lie);
    await_messages(h.board);
    sleep_ms(ms);
    history_end(&h);
    return judge(&h, said, size);
}

/* A lie shows if somebody looks in time, so where little happens it is told for longer. */
static void a_lie_is_found(enum lie lie, const char *words) {
    enum { TRIES = 4 };
    char said[16384];
    unsigned ms = 700 * test_patience();
    int rc = judge_a_lie(lie, ms, said, sizeof(said));
    for (unsigned i = 1; i < TRIES && rc == 0 && lie != LIE_NONE; i++)
        rc = judge_a_lie(lie, ms << i, said, sizeof(said));
    CHECK(rc == (*words ? 1 : 0) && strstr(said, words),
          "expected a verdict with \"%s\", got %d: %s", words, rc, said);
}

static void lies_are_found(void) {
    static const struct {
        enum lie lie;
        const char *words;
    } lies[] = {{LIE_NONE, ""},
                {LIE_ADD_TWICE, "more was added than"},
                {LIE_ADD_LOST, "an add "},
                {LIE_CAS_LOST, "no order"},
                {LIE_PUT_LOST, "no order"},
                {LIE_BLOCK_LOST, "a write was lost"},
                {LIE_SEND_TWICE, "came twice"},
                {LIE_SEND_LOST, "a message was lost"},
                {LIE_WRITE_AFTER_END, "after the lease's end"},
                {LIE_CACHE_LOST, "no order"}};
    _Static_assert(sizeof(lies) / sizeof(lies[0]) == LIES, "a lie that is not told");
    for (unsigned i = 0; i < LIES; i++)
        a_lie_is_found(lies[i].lie, lies[i].words);
}

TEST_MAIN(CASE(what_was_seen_can_have_been), CASE(killed_daemons_cost_a_moment_and_nothing_else),
          CASE(lies_are_found))
