/* SPDX-License-Identifier: MIT */
/*
 * test_upgrade.c - a daemon is exchanged for the next while programs are at work, and they notice
 * nothing but a pause.
 */
#include "daemon/upgrade.h"
#include "tests/integration/chan_stream.h"
#include "tests/integration/upgrade_load.h"
#include "tests/integration/upgrades.h"
#include "tests/support/client.h"
#include "tests/support/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* 10, in tests/soak 50; fewer under a sanitizer, where each takes seconds. */
static unsigned rounds(void) {
    return test_scale() > 1 ? 50 : test_sanitized() ? 4 : 10;
}

/* ---- how long it took ------------------------------------------------------------------------ */

/* No op in flight takes a second here, so ten times what is promised (200 ms) is not reached by
 * a drain that waits for nothing that a client prolongs. A sanitizer's build promises nothing. */
enum { PAUSE_MS = 200 };

static void judge_pauses(const char *what, double *ms, unsigned n) {
    double longest = print_times(what, ms, n);
    CHECK(test_sanitized() || longest < 10.0 * PAUSE_MS * test_patience(), "%s: one took %.0f ms",
          what, longest);
}

/* ---- SIGTERM and a start --------------------------------------------------------------------- */

static void a_restart_under_load_costs_a_pause_and_nothing_else(void) {
    double ms[50];
    unsigned n = rounds();
    need_hole_guard();
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct load *l = load_start(d);
    for (unsigned i = 0; i < n; i++) {
        sleep_ms((unsigned)(test_random() % 50));
        uint64_t began_ms = now_ms();
        tdaemon_end(d);
        ms[i] = (double)(now_ms() - began_ms);
        tdaemon_restart(d);
        load_expect_resumed(l);
    }
    load_end(l);
    judge_pauses("SIGTERM until the exit", ms, n);
    tdaemon_stop(d);
}

/* ---- rdmactl upgrade ------------------------------------------------------------------------- */

static void expect_refused(struct tdaemon *d, const char *words) {
    char said[4096];
    json_t *before = tdaemon_status(d), *answer = upgrade_try(d, said, sizeof(said));
    CHECK(!answer && strstr(said, words), "\"%s\" does not say \"%s\"", said, words);
    json_t *after = tdaemon_status(d);
    CHECK(json_equal(json_object_get(before, "life"), json_object_get(after, "life")) &&
              !strcmp(json_string_value(json_object_get(after, "state")), "running"),
          "it is not the life that was there");
    json_decref(before);
    json_decref(after);
}

/* Somebody who does nothing but come and go, and is never turned away. */
struct comer {
    const struct tdaemon *d;
    bool stop;
    unsigned dials, opens;
    pthread_t dialler, opener;
};

static void *dial_on(void *arg) {
    struct comer *c = arg;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/rdmad.sock", tdaemon_dir(c->d));
    for (; !__atomic_load_n(&c->stop, __ATOMIC_RELAXED); c->dials++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0,
              "connection %u: %s", c->dials, strerror(errno));
        close(fd);
        usleep(test_sanitized() ? 5000 : 500); /* some ten times what the daemon works on it */
    }
    return NULL;
}

static void *open_on(void *arg) {
    struct comer *c = arg;
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    o.runtime_dir = tdaemon_dir(c->d);
    for (; !__atomic_load_n(&c->stop, __ATOMIC_RELAXED); c->opens++) {
        rdmad_session *s;
        int rc = rdmad_open(&o, &s);
        CHECK(rc == 0, "session %u: %s: %s", c->opens, rdmad_errname(rc), rdmad_last_error(NULL));
        rdmad_close(s);
        usleep(2000); /* sessions are given back later than they are closed, and have a limit */
    }
    return NULL;
}

static void comer_start(struct comer *c, const struct tdaemon *d) {
    *c = (struct comer){.d = d};
    CHECK(pthread_create(&c->dialler, NULL, dial_on, c) == 0 &&
              pthread_create(&c->opener, NULL, open_on, c) == 0,
          "threads");
}

static void comer_end(struct comer *c) {
    __atomic_store_n(&c->stop, true, __ATOMIC_RELAXED);
    pthread_join(c->dialler, NULL);
    pthread_join(c->opener, NULL);
    printf("  %u connections and %u sessions came meanwhile\n", c->dials, c->opens);
    CHECK(c->dials && c->opens, "nobody came");
}

/* Of all its threads. */
static unsigned children_of(pid_t pid) {
    char path[64], file[400];
    unsigned n = 0;
    int child;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *e; tasks && (e = readdir(tasks));) {
        snprintf(file, sizeof(file), "%s/%s/children", path, e->d_name);
        FILE *f = fopen(file, "re");
        while (f && fscanf(f, "%d", &child) == 1)
            n++;
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return n;
}

static ino_t inode_of(const struct tdaemon *d, const char *name) {
    char path[256];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", tdaemon_dir(d), name);
    CHECK(stat(path, &st) == 0, "%s: %s", path, strerror(errno));
    return st.st_ino;
}

static void expect_same_port(struct tdaemon *d) {
    json_t *status = tdaemon_status(d);
    char now[64];
    const json_t *listen = json_object_get(status, "listen");
    snprintf(now, sizeof(now), "%s:%d", json_string_value(json_object_get(listen, "host")),
             (int)json_integer_value(json_object_get(listen, "port")));
    CHECK(strcmp(now, tdaemon_listen(d)) == 0, "peers knew %s, it is %s now", tdaemon_listen(d),
          now);
    json_decref(status);
}

/* The porter of each life before was waited for. */
static void expect_one_child(const struct tdaemon *d) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (children_of(tdaemon_pid(d)) > 1) {
        CHECK(now_ms() < deadline, "%u children are left", children_of(tdaemon_pid(d)));
        sleep_ms(20);
    }
}

static void upgrades_under_load_cost_a_pause_and_nothing_else(void) {
    double ms[50];
    unsigned n = rounds();
    struct comer comer;
    need_hole_guard();
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    ino_t sock = inode_of(d, "rdmad.sock"), control = inode_of(d, "control.sock");
    struct load *l = load_start(d);
    comer_start(&comer, d);
    for (unsigned i = 0; i < n; i++) {
        sleep_ms((unsigned)(test_random() % 50));
        ms[i] = upgrade_now(d);
        load_expect_resumed(l);
    }
    comer_end(&comer);
    load_end(l);
    judge_pauses("rdmactl upgrade", ms, n);
    CHECK(sock == inode_of(d, "rdmad.sock") && control == inode_of(d, "control.sock"),
          "a socket was made anew");
    expect_one_child(d);
    tdaemon_stop(d);
}

static void peers_find_it_at_the_port_that_the_kernel_chose(void) {
    const char *args[] = {"--listen", "127.0.0.1:0", NULL};
    need_hole_guard();
    struct tdaemon *d = tdaemon_start("127.0.0.1", args);
    upgrade_now(d);
    expect_same_port(d);
    tdaemon_stop(d);
}

/* ---- two daemons ----------------------------------------------------------------------------- */

/* Each has owners and lessees of the other's, and a channel goes each way. */
struct both {
    char config[2][64];
    struct tdaemon *d[2];
    struct load *load[2];
    struct chan_stream *stream[2];
};

/* Who is slow waits longer for the other daemon: in the guest, beside other work, one has taken
 * four seconds to follow. */
static void both_start(struct both *b) {
    const unsigned patience = test_patience();
    char patient[128];
    snprintf(patient, sizeof(patient),
             "{\"peer\": {\"return_ms\": %u}, \"lease\": {\"attach_timeout_ms\": %u}}",
             15000 * patience, 5000 * patience);
    b->d[0] = start_with_settings("127.0.0.1", b->config[0], patient);
    b->d[1] = start_with_settings("127.0.0.2", b->config[1], patient);
    for (unsigned i = 0; i < 2; i++) /* they fork, so before there are threads */
        b->load[i] = load_prepare(b->d[i], b->d[!i]);
    for (unsigned i = 0; i < 2; i++) {
        load_begin(b->load[i]);
        b->stream[i] = chan_stream_start(b->d[i], b->d[!i], false);
    }
}

static void both_expect_resumed(struct both *b) {
    for (unsigned i = 0; i < 2; i++) {
        load_expect_resumed(b->load[i]);
        chan_stream_expect_progress(b->stream[i], "after an upgrade");
    }
}

static void both_end(struct both *b) {
    for (unsigned i = 0; i < 2; i++) {
        struct chan_stream_sum sum = chan_stream_stop(b->stream[i]);
        CHECK(!sum.unknown && !sum.untouched, "%llu messages are unknown, %llu were not sent",
              (unsigned long long)sum.unknown, (unsigned long long)sum.untouched);
        printf("  %llu messages came\n", (unsigned long long)sum.received);
    }
    for (unsigned i = 0; i < 2; i++)
        load_end(b->load[i]);
    for (unsigned i = 0; i < 2; i++) {
        tdaemon_stop(b->d[i]);
        unlink(b->config[i]);
    }
}

static void upgrades_of_two_daemons_in_turn_cost_a_pause_and_nothing_else(void) {
    double ms[50];
    unsigned n = rounds();
    struct both b;
    need_hole_guard();
    both_start(&b);
    for (unsigned i = 0; i < n; i++) {
        sleep_ms((unsigned)(test_random() % 50));
        ms[i] = upgrade_now(b.d[i % 2]);
        both_expect_resumed(&b);
    }
    both_end(&b);
    judge_pauses("rdmactl upgrade of either daemon", ms, n);
}

struct notified {
    rdmad_lease *granted;
    uint32_t imm;
    int rc;
};

static void *wait_for_notice(void *arg) {
    struct notified *n = arg;
    n->rc = rdmad_wait_notified(n->granted, -1, &n->imm, NULL);
    return NULL;
}

/* It waits in one life, and what it waits for comes in the next. */
static void a_wait_for_a_notice_goes_on(void) {
    struct notified n = {.rc = -1};
    rdmad_pool *pool;
    pthread_t thread;
    need_hole_guard();
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    rdmad_session *s = client_with_pool(d, 1 << 20, &pool);
    char *memory = rdmad_alloc(pool, 8192);
    CHECK(rdmad_lease_grant(s, memory, 4096, NULL, &n.granted) == 0, "%s", rdmad_last_error(s));
    rdmad_lease *l = client_attach(s, rdmad_lease_uri(n.granted));
    CHECK(pthread_create(&thread, NULL, wait_for_notice, &n) == 0, "thread");
    for (unsigned i = 0; i < 3; i++) {
        sleep_ms(50); /* it is submitted, or will be */
        upgrade_now(d);
    }
    CHECK(rdmad_write_notify(l, 0, memory + 4096, 8, 77) == 0, "%s", rdmad_last_error(s));
    pthread_join(thread, NULL);
    CHECK(n.rc == 0 && n.imm == 77, "%s, %u", rdmad_errname(n.rc), n.imm);
    rdmad_close(s);
    tdaemon_stop(d);
}

static void no_descriptor_is_left_behind(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    upgrade_now(d);
    unsigned after_one = tdaemon_fds(d);
    for (unsigned i = 0; i < 10; i++)
        upgrade_now(d);
    tdaemon_expect_fds(d, after_one);
    expect_one_child(d);
    tdaemon_stop(d);
}

/* The daemon does not wait for it for long, and its parent is the next life. */
static void a_porter_that_ends_later_is_waited_for(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    pid_t porter = tdaemon_porter(d);
    process_stop(porter);
    upgrade_now(d);
    CHECK(tdaemon_porter(d) != porter && children_of(tdaemon_pid(d)) == 2, "there are %u children",
          children_of(tdaemon_pid(d)));
    process_go_on(porter);
    expect_one_child(d);
    tdaemon_stop(d);
}

/* The sockets of tenants stay, too; one that is no tenant any more is refused from then on. */
static void tenants_sockets_stay_as_well(void) {
    char config[64], path[256];
    static const char two[] = "{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"}]}",
                      one[] = "{\"sockets\": [{\"tenant\": \"blue\"}]}";
    struct tdaemon *d = start_with_settings("127.0.0.1", config, two);
    ino_t blue = inode_of(d, "tenants/blue/rdmad.sock"),
          red = inode_of(d, "tenants/red/rdmad.sock");
    upgrade_now(d);
    CHECK(blue == inode_of(d, "tenants/blue/rdmad.sock") &&
              red == inode_of(d, "tenants/red/rdmad.sock"),
          "a tenant's socket was made anew");
    settings_write(config, one);
    upgrade_now(d);
    CHECK(blue == inode_of(d, "tenants/blue/rdmad.sock"), "blue's socket was made anew");
    snprintf(path, sizeof(path), "%s/tenants/red/rdmad.sock", tdaemon_dir(d));
    CHECK(access(path, F_OK) != 0, "%s is still there", path);
    unlink(config);
    tdaemon_stop(d);
}

/* ---- what does not begin --------------------------------------------------------------------- */

/* A daemon whose program file is the test's to change. */
struct copy {
    struct program_file file;
    struct tdaemon *d;
};

static void copy_start(struct copy *c) {
    char from[512];
    program_file_make(&c->file, build_path("daemon/rdmad", from, sizeof(from)));
    c->d = tdaemon_start("127.0.0.1", NULL);
}

static void copy_end(struct copy *c) {
    tdaemon_stop(c->d);
    program_file_remove(&c->file);
}

static void a_broken_program_leaves_the_old_one_serving(void) {
    struct copy c;
    copy_start(&c);
    rdmad_session *s = client_open(c.d);
    program_file_script(&c.file, "#!/bin/sh\necho \"cannot read the settings\" >&2\nexit 2\n",
                        0755);
    expect_refused(c.d, "ended with 2, so this rdmad goes on: cannot read the settings");
    program_file_script(&c.file, "#!/bin/sh\nexit 0\n", 0644);
    expect_refused(c.d, "cannot be run, so this rdmad goes on: Permission denied");
    program_file_script(&c.file, "#!/bin/sh\nkill -SEGV $$\n", 0755);
    expect_refused(c.d, "was ended by signal 11, so this rdmad goes on");
    unlink(c.file.path);
    expect_refused(c.d, "cannot be run, so this rdmad goes on: No such file or directory");
    CHECK(tdaemon_logged(c.d, "cannot read the settings"), "the log does not say why");
    json_t *objects = tdaemon_objects(c.d);
    CHECK(json_integer_value(json_object_get(objects, "sessions")) == 1, "the session has gone");
    json_decref(objects);
    rdmad_close(s);
    copy_end(&c);
}

/* It goes on serving while it looks at a program that hangs, and stops in time, too. */
static void one_at_a_time_is_checked(void) {
    struct copy c;
    copy_start(&c);
    program_file_script(&c.file, "#!/bin/sh\nsleep 1000\n", 0755);
    int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    static const char ask[] = "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"upgrade\"}\n";
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/control.sock", tdaemon_dir(c.d));
    uint64_t asked_ms = now_ms();
    CHECK(connect(first, (const struct sockaddr *)&a, sizeof(a)) == 0 &&
              send(first, ask, strlen(ask), 0) == (ssize_t)strlen(ask),
          "%s", strerror(errno));
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (children_of(tdaemon_pid(c.d)) < 2) {
        CHECK(now_ms() < deadline, "the program is not tried");
        sleep_ms(5);
    }
    expect_refused(c.d, "an upgrade is under way");
    rdmad_close(client_open(c.d));
    tdaemon_end(c.d);
    CHECK(now_ms() - asked_ms < UPGRADE_CHECK_MS, "it waited for the program, %llu ms",
          (unsigned long long)(now_ms() - asked_ms));
    close(first);
    copy_end(&c);
}

/* The file is good when it is looked at, and gone when it is to be run. */
static void if_the_next_cannot_begin_the_manager_is_told(void) {
    struct copy c;
    siginfo_t info = {.si_pid = 0};
    char said[4096];
    copy_start(&c);
    program_file_script(
        &c.file, "#!/bin/sh\necho rdmad\n[ \"${*%--version}\" = \"$*\" ] || rm \"$0\"\n", 0755);
    CHECK(!upgrade_try(c.d, said, sizeof(said)) && strstr(said, "RDMAD_E_NO_DAEMON"), "%s", said);
    CHECK(waitid(P_PID, (id_t)tdaemon_pid(c.d), &info, WEXITED | WNOWAIT) == 0, "waitid");
    CHECK(info.si_code == CLD_EXITED && info.si_status == 1, "it ended with %d", info.si_status);
    CHECK(tdaemon_logged(c.d, "cannot begin the next"), "the log does not say why");
    tdaemon_kill(c.d); /* reaps it */
    tdaemon_use("daemon/rdmad");
    tdaemon_restart(c.d); /* as the manager does */
    copy_end(&c);
}

/* The exit code of rdmactl upgrade FILE, and what it said. */
static int upgrade_to(const struct tdaemon *d, const char *file, char *said, size_t size) {
    char path[512];
    const char *argv[] = {build_path("rdmactl/rdmactl", path, sizeof(path)),
                          "-d",
                          tdaemon_dir(d),
                          "upgrade",
                          file,
                          NULL};
    return run_program(argv, said, size);
}

static void another_file_is_the_daemons_from_then_on(void) {
    struct copy c;
    struct program_file other;
    char said[4096], from[512];
    program_file_make(&other, build_path("daemon/rdmad", from, sizeof(from)));
    copy_start(&c);
    CHECK(upgrade_to(c.d, other.path, said, sizeof(said)) == 0, "%s", said);
    program_file_expect(&other, c.d);
    program_file_put(&other, from);
    upgrade_now(c.d);
    program_file_expect(&other, c.d);
    copy_end(&c);
    program_file_remove(&other);
}

static void expect_not_to(const struct copy *c, const char *file, const char *words) {
    char said[4096] = "";
    CHECK(upgrade_to(c->d, file, said, sizeof(said)) == 1 && strstr(said, words),
          "\"%s\" does not say \"%s\"", said, words);
    program_file_expect(&c->file, c->d);
}

static void a_file_that_others_can_change_is_none(void) {
    struct copy c;
    struct program_file other;
    char from[512];
    program_file_make(&other, build_path("daemon/rdmad", from, sizeof(from)));
    copy_start(&c);
    CHECK(chmod(other.path, 0775) == 0, "%s", strerror(errno));
    expect_not_to(&c, other.path, "can be written to by others, so this rdmad goes on");
    CHECK(chmod(other.path, 0755) == 0 && chmod(other.dir, 0777) == 0, "%s", strerror(errno));
    expect_not_to(&c, other.path, "can be written to by others");
    CHECK(chmod(other.dir, 0755) == 0, "%s", strerror(errno));
    expect_not_to(&c, other.dir, "is no file");
    expect_not_to(&c, "/nowhere/rdmad", "No such file or directory");
    program_file_script(&other, "#!/bin/sh\nexit 3\n", 0755);
    expect_not_to(&c, other.path, "ended with 3, so this rdmad goes on");
    expect_not_to(&c, "/bin/true", "is no rdmad, so this rdmad goes on: to --version ");
    if (geteuid() == 0) {
        CHECK(chown(other.path, 65534, 65534) == 0, "%s", strerror(errno));
        expect_not_to(&c, other.path, "belongs to another user than root and rdmad's");
    }
    upgrade_now(c.d); /* its own is what it was */
    program_file_expect(&c.file, c.d);
    copy_end(&c);
    program_file_remove(&other);
}

/* Who may do what the daemon can, but is not it. */
static void name_a_file_as_nobody(void *arg) {
    const struct copy *c = arg;
    CHECK(setgid(65534) == 0 && setuid(65534) == 0, "%s", strerror(errno));
    char said[4096] = "";
    CHECK(upgrade_to(c->d, "/bin/true", said, sizeof(said)) == 1 &&
              strstr(said, "only root, and the user that rdmad runs as, say what it becomes"),
          "%s", said);
}

static void only_root_and_the_daemons_user_name_a_file(void) {
    char config[64];
    static const char act[] =
        "{\"policy\": {\"users\": [{\"match\": {\"uid\": 65534}, \"admin\": \"act\"}]}}";
    struct copy c;
    if (geteuid())
        skip("only root can be another user");
    c.d = start_with_settings("127.0.0.1", config, act);
    CHECK(chmod(tdaemon_dir(c.d), 0755) == 0, "%s", strerror(errno));
    client_expect_ok(client_fork(name_a_file_as_nobody, &c));
    unlink(config);
    tdaemon_stop(c.d);
}

static void ask_as_nobody(void *arg) {
    CHECK(setgid(65534) == 0 && setuid(65534) == 0, "%s", strerror(errno));
    expect_refused(arg, "changes the daemon");
}

static void others_than_administrators_are_refused(void) {
    if (geteuid())
        skip("only root can be another user");
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    CHECK(chmod(tdaemon_dir(d), 0755) == 0, "%s", strerror(errno));
    client_expect_ok(client_fork(ask_as_nobody, d));
    tdaemon_stop(d);
}

/* ---- while it drains ------------------------------------------------------------------------- */

struct reading {
    rdmad_lease *lease;
    void *to;
};

static void *read_far(void *arg) {
    struct reading *r = arg;
    (void)rdmad_read(r->lease, 0, r->to, 4096); /* nobody answers: it ends with the daemon */
    return NULL;
}

static bool ops_in_flight(struct tdaemon *d) {
    json_t *objects = tdaemon_objects(d);
    bool some = json_integer_value(json_object_get(objects, "ops_inflight")) > 0;
    json_decref(objects);
    return some;
}

/* An op of which the other end says nothing keeps the daemon draining. Then a second upgrade is
 * refused, and who wants its end gets that instead. */
static void an_upgrade_that_drains_can_be_ended(void) {
    struct tdaemon *far = tdaemon_start("127.0.0.2", NULL), *d = tdaemon_start("127.0.0.1", NULL);
    rdmad_pool *far_pool, *pool;
    rdmad_lease *granted;
    pthread_t thread;
    rdmad_session *owner = client_with_pool(far, 1 << 20, &far_pool);
    rdmad_session *s = client_with_pool(d, 1 << 20, &pool);
    struct reading r = {.to = rdmad_alloc(pool, 4096)};
    CHECK(rdmad_lease_grant(owner, rdmad_alloc(far_pool, 4096), 4096, NULL, &granted) == 0, "%s",
          rdmad_last_error(owner));
    r.lease = client_attach(s, rdmad_lease_uri(granted));
    process_stop(tdaemon_pid(far));
    CHECK(pthread_create(&thread, NULL, read_far, &r) == 0, "thread");
    while (!ops_in_flight(d))
        sleep_ms(5);
    json_decref(tdaemon_call(d, "upgrade", NULL));
    char said[4096];
    CHECK(!upgrade_try(d, said, sizeof(said)) && strstr(said, "an upgrade is under way"), "%s",
          said);
    tdaemon_end(d); /* SIGTERM: exit 0, no sockets left */
    process_go_on(tdaemon_pid(far));
    rdmad_close(owner);
    tdaemon_restart(d);
    pthread_join(thread, NULL);
    rdmad_close(s);
    tdaemon_stop(d);
    tdaemon_stop(far);
}

TEST_MAIN(CASE(a_restart_under_load_costs_a_pause_and_nothing_else),
          CASE(upgrades_under_load_cost_a_pause_and_nothing_else),
          CASE(peers_find_it_at_the_port_that_the_kernel_chose),
          CASE(upgrades_of_two_daemons_in_turn_cost_a_pause_and_nothing_else),
          CASE(a_wait_for_a_notice_goes_on), CASE(no_descriptor_is_left_behind),
          CASE(a_porter_that_ends_later_is_waited_for), CASE(tenants_sockets_stay_as_well),
          CASE(a_broken_program_leaves_the_old_one_serving), CASE(one_at_a_time_is_checked),
          CASE(if_the_next_cannot_begin_the_manager_is_told),
          CASE(another_file_is_the_daemons_from_then_on),
          CASE(a_file_that_others_can_change_is_none),
          CASE(only_root_and_the_daemons_user_name_a_file),
          CASE(others_than_administrators_are_refused), CASE(an_upgrade_that_drains_can_be_ended))
