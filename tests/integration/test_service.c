/* SPDX-License-Identifier: MIT */
/*
 * The daemon as a service: what it tells its service manager, what it takes from it, how it reads
 * its settings again, and how it stops. The test plays the service manager.
 */
#include "tests/support/harness.h"
#include "tests/support/procs.h"
#include "tests/support/rawclient.h"
#include "tests/support/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <rdmad/rdmad.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct service {
    char dir[40], runtime_dir[64], log[64], config[64];
    int notify; /* our end of NOTIFY_SOCKET */
    int passed; /* to be the daemon's descriptor 3; -1: none */
    const char *passed_name, *watchdog_usec;
    bool with_config;
    pid_t pid;
};

static int bound_socket(const char *path, int type) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "%s: %s", path,
          strerror(errno));
    return fd;
}

static void prepare(struct service *s) {
    char path[64];
    *s = (struct service){.passed = -1};
    CHECK(temp_dir(s->dir, sizeof(s->dir), 20, "service"), "%s: %s", s->dir, strerror(errno));
    snprintf(s->runtime_dir, sizeof(s->runtime_dir), "%s/run", s->dir);
    snprintf(s->log, sizeof(s->log), "%s/log", s->dir);
    snprintf(s->config, sizeof(s->config), "%s/rdmad.json", s->dir);
    snprintf(path, sizeof(path), "%s/notify", s->dir);
    s->notify = bound_socket(path, SOCK_DGRAM);
}

static void set_number(const char *name, long number) {
    char text[24];
    snprintf(text, sizeof(text), "%ld", number);
    setenv(name, text, 1);
}

static _Noreturn void exec_service(const struct service *s) {
    char path[512], notify[64];
    snprintf(notify, sizeof(notify), "%s/notify", s->dir);
    setenv("NOTIFY_SOCKET", notify, 1);
    unsetenv("JOURNAL_STREAM");
    if (s->watchdog_usec) {
        setenv("WATCHDOG_USEC", s->watchdog_usec, 1);
        set_number("WATCHDOG_PID", getpid());
    }
    if (s->passed >= 0) {
        dup2(s->passed, 3);
        set_number("LISTEN_PID", getpid());
        set_number("LISTEN_FDS", 1);
        setenv("LISTEN_FDNAMES", s->passed_name, 1);
    }
    int log = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(log, 2);
    build_path("daemon/rdmad", path, sizeof(path));
    if (s->with_config)
        execl(path, path, "--runtime-dir", s->runtime_dir, "--listen", "127.0.0.1:0", "--config",
              s->config, NULL);
    else
        execl(path, path, "--runtime-dir", s->runtime_dir, "--listen", "127.0.0.1:0", NULL);
    _exit(127);
}

/* Whether a datagram with word comes within TEST_PATIENCE_MS; others are thrown away. */
static bool told(const struct service *s, const char *word) {
    struct pollfd p = {.fd = s->notify, .events = POLLIN};
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    char text[1024];
    while (now_ms() < until && poll(&p, 1, (int)(until - now_ms())) == 1) {
        ssize_t n = recv(s->notify, text, sizeof(text) - 1, MSG_DONTWAIT);
        text[n > 0 ? n : 0] = '\0';
        if (strstr(text, word))
            return true;
    }
    return false;
}

static void start(struct service *s) {
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exec_service(s);
    }
    CHECK(s->pid > 0, "fork: %s", strerror(errno));
    CHECK(told(s, "READY=1"), "rdmad never told that it is ready");
}

static void remove_all(const struct service *s) {
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", s->dir);
    CHECK(system(command) == 0, "%s", command);
}

static void stop(struct service *s) {
    int status;
    kill(s->pid, SIGTERM);
    CHECK(told(s, "STOPPING=1"), "rdmad never told that it is stopping");
    CHECK(waitpid(s->pid, &status, 0) == s->pid, "waitpid: %s", strerror(errno));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rdmad ended with status 0x%x",
          (unsigned)status);
    close(s->notify);
    remove_all(s);
}

static void write_config(const struct service *s, const char *text) {
    FILE *f = fopen(s->config, "we");
    CHECK(f, "%s: %s", s->config, strerror(errno));
    fputs(text, f);
    fclose(f);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void ready_means_that_clients_can_connect(void) {
    struct service s;
    prepare(&s);
    start(&s);
    int sock = raw_session(s.runtime_dir);
    CHECK(sock >= 0, "no session right after READY=1");
    close(sock);
    stop(&s);
}

static void the_watchdog_is_answered(void) {
    struct service s;
    prepare(&s);
    s.watchdog_usec = "600000";
    start(&s);
    for (int i = 0; i < 3; i++)
        CHECK(told(&s, "WATCHDOG=1"), "no answer number %d to the watchdog", i + 1);
    stop(&s);
}

/* The control thread goes on and could answer for all; systemd must hear nothing. */
static void a_worker_that_hangs_is_not_hidden_from_the_watchdog(void) {
    struct service s;
    char text[64];
    prepare(&s);
    s.watchdog_usec = "600000"; /* an answer each 200 ms */
    start(&s);
    struct pollfd p = {.fd = s.notify, .events = POLLIN};
    CHECK(told(&s, "WATCHDOG=1"), "no answer while all is well");
    pid_t worker = thread_stop(s.pid, "rdmad-worker-0");
    bool answered;
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    do { /* the question that was under way, and its answer: on a busy machine that comes later */
        sleep_ms(500 * test_patience());
        while (recv(s.notify, text, sizeof(text), MSG_DONTWAIT) > 0)
            ;
        answered = poll(&p, 1, 1000 * (int)test_patience()) > 0;
    } while (answered && now_ms() < until);
    int sock = raw_session(s.runtime_dir); /* the control thread does its work */
    thread_go_on(worker);
    CHECK(!answered, "the watchdog was answered with a worker that hangs");
    CHECK(sock >= 0, "no session");
    CHECK(log_tells(s.log, "a worker does not turn"), "the log does not say why");
    CHECK(told(&s, "WATCHDOG=1"), "no answer after the worker came back");
    close(sock);
    stop(&s);
}

static bool rdmactl_says_now(const struct service *s, const char *command, const char *word) {
    char rdmactl[512], line[32768]; /* an answer is one line */
    bool said = false;
    build_path("rdmactl/rdmactl", rdmactl, sizeof(rdmactl));
    snprintf(line, sizeof(line), "%s -d %s %s", rdmactl, s->runtime_dir, command);
    FILE *f = popen(line, "re");
    CHECK(f, "%s: %s", line, strerror(errno));
    while (fgets(line, sizeof(line), f))
        said = said || strstr(line, word);
    pclose(f);
    return said;
}

/* The same, within the patience of a test. */
static bool rdmactl_says(const struct service *s, const char *command, const char *word) {
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    while (!rdmactl_says_now(s, command, word)) {
        if (now_ms() > until)
            return false;
        sleep_ms(20);
    }
    return true;
}

/* What status says is what its schema says. */
static void expect_status_as_in_schema(const struct service *s) {
    char rdmactl[512], line[2048];
    const char *source = getenv("RDMAD_SOURCE");
    CHECK(source, "RDMAD_SOURCE is not set");
    build_path("rdmactl/rdmactl", rdmactl, sizeof(rdmactl));
    snprintf(line, sizeof(line),
             "%s -d %s -j status | %s/tests/integration/schemas.py %s/rdmactl/schema status",
             rdmactl, s->runtime_dir, source, source);
    CHECK(system(line) == 0, "%s", line);
}

struct mover {
    int sock;
    struct raw_ring ring;
    struct rdmad_sqe write;
};

static void mover_up(struct mover *m, const struct service *s) {
    struct rdmad_lease_grant_rep granted;
    struct rdmad_lease_attach_rep attached;
    struct raw_pool pool;
    char text[RDMAD_TEXT_MAX + 1];
    m->sock = raw_session(s->runtime_dir);
    CHECK(raw_ring_create(m->sock, 16, &m->ring) == 0, "no ring");
    CHECK(raw_pool_create(m->sock, 8192, 0, &pool) == 0, "no pool");
    CHECK(raw_grant(m->sock, &pool, 60 * UINT64_C(1000000000), &granted, text) == 0, "%s", text);
    CHECK(raw_attach(m->sock, granted.uri, &attached, text) == 0, "%s", text);
    m->write = (struct rdmad_sqe){.opcode = RDMAD_OP_WRITE,
                                  .pool = pool.handle,
                                  .lease = attached.handle,
                                  .lease_offset = 4096,
                                  .length = 4096};
    raw_pool_unmap(&pool);
}

static bool moved(struct mover *m, int timeout_ms) {
    struct rdmad_cqe cqe;
    if (!raw_ring_take(&m->ring, &cqe, timeout_ms))
        return false;
    CHECK(cqe.status == 0, "a transfer ended with %d", cqe.status);
    return true;
}

static void mover_down(struct mover *m) {
    raw_ring_unmap(&m->ring);
    close(m->sock);
}

static bool threads_can_be_stopped(void) {
    int status;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    bool can = pid > 0 && !ptrace(PTRACE_SEIZE, pid, NULL, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return can;
}

/* By those who look, while its sessions stand still and everything else is well. */
static void a_worker_that_hangs_is_told_of_until_it_goes_on(void) {
    struct service s;
    struct mover m;
    if (!threads_can_be_stopped())
        skip("this process may not trace another one");
    prepare(&s);
    s.watchdog_usec = "4500000"; /* silent after 0.75 s, it hangs after 2.25 s */
    start(&s);
    mover_up(&m, &s);
    raw_ring_put(&m.ring, &m.write, 1);
    CHECK(moved(&m, (int)TEST_PATIENCE_MS), "no transfer while all is well");
    CHECK(rdmactl_says(&s, "-j status", "\"silent_threads\":[]"), "somebody is silent");

    pid_t worker = thread_stop(s.pid, "rdmad-worker-0");
    raw_ring_put(&m.ring, &m.write, 1);
    CHECK(rdmactl_says(&s, "-j status", "\"thread\":\"rdmad-worker-0\""), "status, JSON");
    CHECK(rdmactl_says(&s, "status", "WARNING: rdmad-worker-0 has not gone on for"), "status");
    CHECK(rdmactl_says(&s, "doctor", "rdmad-worker-0 has not turned for"), "doctor");
    CHECK(rdmactl_says(&s, "events --kind thread", "silent"), "events");
    CHECK(rdmactl_says(&s, "-j status", "\"hangs\":true"), "that it hangs");
    CHECK(rdmactl_says_now(&s, "metrics", "_silent_seconds{thread=\"rdmad-register\"} 0") &&
              !rdmactl_says_now(&s, "metrics", "_silent_seconds{thread=\"rdmad-worker-0\"} 0"),
          "metrics");
    expect_status_as_in_schema(&s);
    CHECK(log_tells(s.log, "rdmad-worker-0 has not turned for"), "the log");
    CHECK(!moved(&m, 0), "a transfer by a thread that is stopped");

    thread_go_on(worker);
    CHECK(rdmactl_says(&s, "-j status", "\"silent_threads\":[]"), "it is silent after its end");
    CHECK(rdmactl_says(&s, "events --kind thread", "goes on"), "events, at the end");
    CHECK(moved(&m, (int)TEST_PATIENCE_MS), "the transfer that waited");
    CHECK(told(&s, "WATCHDOG=1"), "no answer to the watchdog");
    mover_down(&m);
    stop(&s);
}

/* For longer than its worker may be silent, while that owes it an answer. Returns for how many ms
 * at most the worker alone stood still. */
static uint64_t stop_it_for_long(const struct service *s) {
    uint64_t since = now_ms();
    pid_t worker = thread_stop(s->pid, "rdmad-worker-0");
    sleep_ms(700); /* it is asked */
    process_stop(s->pid);
    sleep_ms(5000);
    process_go_on(s->pid);
    sleep_ms(100); /* the control thread looks first */
    thread_go_on(worker);
    return now_ms() - since - 5000;
}

static void a_daemon_that_was_stopped_takes_no_worker_for_hung(void) {
    struct service s;
    struct mover m;
    if (!threads_can_be_stopped())
        skip("this process may not trace another one");
    prepare(&s);
    s.watchdog_usec = "9000000"; /* asked each 0.6 s, silent after 1.5 s, it hangs after 4.5 s */
    start(&s);
    mover_up(&m, &s);
    uint64_t alone_ms = stop_it_for_long(&s);
    CHECK(rdmactl_says(&s, "-j status", "\"silent_threads\":[]"), "a worker is silent");
    CHECK(told(&s, "WATCHDOG=1"), "no answer to the watchdog");
    raw_ring_put(&m.ring, &m.write, 1);
    CHECK(moved(&m, (int)TEST_PATIENCE_MS), "no transfer");
    bool tells = rdmactl_says_now(&s, "events --kind thread", "silent");
    mover_down(&m);
    stop(&s);
    if (tells && alone_ms >= 1500)
        skip("this machine is too slow: a worker alone was stopped for %" PRIu64 " ms", alone_ms);
    CHECK(!tells, "an event tells of a hang");
}

/* It hears of everything else as soon as it reads again, and in order. */
static void a_manager_that_does_not_read_keeps_nobody_waiting(void) {
    struct service s;
    prepare(&s);
    s.watchdog_usec = "150000"; /* an answer each 50 ms, of which its socket has room for eleven */
    start(&s);
    sleep_ms(2000);
    CHECK(rdmactl_says_now(&s, "status", "rdmad"), "it answers nobody");
    kill(s.pid, SIGHUP);
    sleep_ms(500);
    CHECK(rdmactl_says_now(&s, "status", "rdmad"), "it answers nobody after SIGHUP");
    CHECK(told(&s, "RELOADING=1"), "the reload was not told");
    CHECK(told(&s, "READY=1"), "its end was not told");
    CHECK(told(&s, "WATCHDOG=1"), "the watchdog is not answered any more");
    stop(&s);
}

static void settings_are_read_again(void) {
    struct service s;
    prepare(&s);
    s.with_config = true;
    write_config(&s, "{\"workers\": 1}");
    start(&s);

    write_config(&s, "{\"workers\": 2, \"limits\": {\"sessions\": 1}}");
    kill(s.pid, SIGHUP);
    CHECK(told(&s, "RELOADING=1") && told(&s, "READY=1"), "the reload was not told");
    CHECK(log_tells(s.log, "'workers' has changed and takes effect at the next start"),
          "a setting that needs a restart was not named");
    int first = raw_session(s.runtime_dir), second = raw_connect(s.runtime_dir);
    struct raw_packet p;
    CHECK(raw_recv(second, &p, (int)TEST_PATIENCE_MS) && p.header.status == RDMAD_E_LIMIT,
          "the new limit does not hold");
    CHECK(strstr(raw_text(&p), "limits.sessions"), "%s", raw_text(&p));
    close(second);

    write_config(&s, "{\"workers\": 2, \"limits\": {\"sessions\": 0}}");
    kill(s.pid, SIGHUP);
    CHECK(told(&s, "RELOADING=1") && told(&s, "READY=1"), "the failed reload was not told");
    CHECK(log_tells(s.log, "settings not reloaded, the old ones stay"),
          "a bad file was not refused");
    CHECK(log_tells(s.log, "rdmad.json:1:39: limits.sessions is 0"), "the place was not named");
    CHECK(!raw_ended(first, 100), "a session did not survive the reload");
    close(first);
    stop(&s);
}

/* With rdmad.sock, at path, bound by the service manager. */
static void prepare_passed(struct service *s, char *path, size_t size) {
    prepare(s);
    mkdir(s->runtime_dir, 0755);
    snprintf(path, size, "%s/rdmad.sock", s->runtime_dir);
    s->passed = bound_socket(path, SOCK_SEQPACKET);
    s->passed_name = "rdmad.sock";
    CHECK(listen(s->passed, 100) == 0, "listen: %s", strerror(errno));
}

/* It is stopped in order, and what was passed is left in place. */
static void end_passed(const struct service *s, const char *path) {
    struct stat st;
    int status;
    kill(s->pid, SIGTERM);
    CHECK(told(s, "STOPPING=1"), "rdmad never told that it is stopping");
    CHECK(waitpid(s->pid, &status, 0) == s->pid && status == 0, "status 0x%x", (unsigned)status);
    CHECK(stat(path, &st) == 0, "the service manager's socket was removed");
}

static void a_passed_socket_is_served_and_left_in_place(void) {
    struct service s;
    char path[128];
    prepare_passed(&s, path, sizeof(path));
    int early = raw_connect(s.runtime_dir); /* before there is a daemon */
    start(&s);
    struct rdmad_hello_req hello = {.name = "early"};
    struct raw_packet reply;
    CHECK(raw_request(early, RDMAD_MSG_HELLO, &hello, sizeof(hello), &reply) == 0,
          "a client that came before the daemon was not served");
    close(early);
    end_passed(&s, path);
    close(s.passed);
    close(s.notify);
    remove_all(&s);
}

static void upgrade(const struct service *s) {
    char path[512], said[1024];
    const char *argv[] = {build_path("rdmactl/rdmactl", path, sizeof(path)), "-d", s->runtime_dir,
                          "upgrade", NULL};
    CHECK(run_program(argv, said, sizeof(said)) == 0, "%s", said);
}

/* To the service manager an upgrade is a reload of the same process, twice here: the socket is
 * passed on as what it is, so it is left in place at the end, and ours is not. */
static void an_upgrade_is_told_as_a_reload(void) {
    struct service s;
    char path[128], text[1024];
    struct stat st;
    prepare_passed(&s, path, sizeof(path));
    start(&s);
    for (int i = 0; i < 2; i++) {
        upgrade(&s);
        ssize_t n = recv(s.notify, text, sizeof(text) - 1, MSG_DONTWAIT);
        text[n > 0 ? n : 0] = '\0';
        CHECK(strstr(text, "RELOADING=1") && strstr(text, "MONOTONIC_USEC="), "it told \"%s\"",
              text);
        CHECK(told(&s, "READY=1"), "the next life never told that it is ready");
        int sock = raw_session(s.runtime_dir);
        CHECK(sock >= 0, "no session after upgrade %d", i);
        close(sock);
    }
    CHECK(log_is_silent(s.log, "closing the passed socket"), "a socket had a name nobody knows");
    end_passed(&s, path);
    snprintf(path, sizeof(path), "%s/control.sock", s.runtime_dir);
    CHECK(stat(path, &st) != 0, "rdmad left %s behind", path);
    close(s.passed);
    close(s.notify);
    remove_all(&s);
}

static void open_a_session(void *arg) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *session;
    o.runtime_dir = arg;
    CHECK(rdmad_open(&o, &session) == 0, "%s", rdmad_last_error(NULL));
    rdmad_close(session);
}

/* The first one ends before it has said anything; the program is the next one's. */
static void a_session_is_opened_though_its_daemon_goes(void) {
    struct service s;
    char path[128];
    prepare_passed(&s, path, sizeof(path));
    pid_t client = client_fork(open_a_session, s.runtime_dir);
    int first = accept(s.passed, NULL, NULL);
    CHECK(first >= 0, "accept: %s", strerror(errno));
    close(first);
    start(&s);
    client_expect_ok(client);
    close(s.passed);
    stop(&s);
}

static void a_passed_socket_of_another_kind_is_refused(void) {
    struct service s;
    char path[128];
    int status;
    prepare(&s);
    mkdir(s.runtime_dir, 0755);
    snprintf(path, sizeof(path), "%s/rdmad.sock", s.runtime_dir);
    s.passed = bound_socket(path, SOCK_STREAM);
    s.passed_name = "rdmad.sock";
    listen(s.passed, 100);
    s.pid = fork();
    if (s.pid == 0)
        exec_service(&s);
    waitpid(s.pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2, "status 0x%x", (unsigned)status);
    CHECK(log_tells(s.log, "is not a listening Unix seqpacket socket"), "the reason was not told");
    close(s.passed);
    close(s.notify);
    remove_all(&s);
}

static void a_second_daemon_in_the_directory_is_refused(void) {
    struct service s;
    char out[1024], path[512];
    prepare(&s);
    start(&s);
    const char *argv[] = {build_path("daemon/rdmad", path, sizeof(path)),
                          "--runtime-dir",
                          s.runtime_dir,
                          "--listen",
                          "127.0.0.1:0",
                          NULL};
    CHECK(run_program(argv, out, sizeof(out)) == 1, "the second daemon started: %s", out);
    CHECK(strstr(out, "another rdmad runs in"), "%s", out);
    int sock = raw_session(s.runtime_dir);
    CHECK(sock >= 0, "the first daemon was disturbed");
    close(sock);
    stop(&s);
}

static void clients_are_told_that_it_stops(void) {
    struct service s;
    struct raw_packet p;
    prepare(&s);
    start(&s);
    int sock = raw_session(s.runtime_dir);
    kill(s.pid, SIGTERM);
    CHECK(raw_recv(sock, &p, (int)TEST_PATIENCE_MS), "nothing was said");
    CHECK(p.header.type == RDMAD_EV_SESSION_ENDED && p.header.status == RDMAD_E_SHUTDOWN,
          "type 0x%x, status %d", p.header.type, p.header.status);
    CHECK(strstr(raw_text(&p), "stopping"), "%s", raw_text(&p));
    CHECK(raw_ended(sock, (int)TEST_PATIENCE_MS), "the socket did not end");
    close(sock);
    stop(&s);
}

/* Who ends, and has much to give back meanwhile, is not ready again. */
static void a_reload_does_not_take_a_stop_back(void) {
    struct service s;
    struct raw_pool pool;
    char text[1024];
    int status;
    prepare(&s);
    start(&s);
    int sock = raw_session(s.runtime_dir);
    CHECK(raw_pool_create(sock, 256u << 20, 0, &pool) == 0, "no pool");
    kill(s.pid, SIGTERM);
    CHECK(told(&s, "STOPPING=1"), "rdmad never told that it is stopping");
    kill(s.pid, SIGHUP);
    raw_pool_unmap(&pool);
    close(sock);
    CHECK(waitpid(s.pid, &status, 0) == s.pid && status == 0, "rdmad ended with status 0x%x",
          (unsigned)status);
    for (ssize_t n; (n = recv(s.notify, text, sizeof(text) - 1, MSG_DONTWAIT)) >= 0;) {
        text[n] = '\0';
        CHECK(!strstr(text, "READY=1"), "a stopping daemon said: %s", text);
    }
    close(s.notify);
    remove_all(&s);
}

static void an_idle_daemon_does_not_wake_up(void) {
    struct service s;
    if (test_sanitized())
        skip("a sanitizer's own threads wake up");
    prepare(&s);
    start(&s);
    int sock = raw_session(s.runtime_dir);
    struct raw_ring ring;
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "no ring");
    /* Whatever follows a start: the last look at workers, too (state/thread_watch.h). */
    sleep_ms(5000);
    uint64_t woken = 1;
    for (unsigned i = 0; woken && i < 5; i++) { /* what a busy machine has put off may come once */
        uint64_t before = process_sleeps(s.pid);
        sleep_ms(3000);
        woken = process_sleeps(s.pid) - before;
    }
    CHECK(woken == 0, "idle with one session it woke up %" PRIu64 " times in 3 s", woken);
    raw_ring_unmap(&ring);
    close(sock);
    stop(&s);
}

TEST_MAIN(CASE(ready_means_that_clients_can_connect), CASE(the_watchdog_is_answered),
          CASE(a_worker_that_hangs_is_not_hidden_from_the_watchdog),
          CASE(a_worker_that_hangs_is_told_of_until_it_goes_on),
          CASE(a_daemon_that_was_stopped_takes_no_worker_for_hung),
          CASE(a_manager_that_does_not_read_keeps_nobody_waiting), CASE(settings_are_read_again),
          CASE(a_passed_socket_is_served_and_left_in_place), CASE(an_upgrade_is_told_as_a_reload),
          CASE(a_session_is_opened_though_its_daemon_goes),
          CASE(a_passed_socket_of_another_kind_is_refused),
          CASE(a_second_daemon_in_the_directory_is_refused), CASE(clients_are_told_that_it_stops),
          CASE(a_reload_does_not_take_a_stop_back), CASE(an_idle_daemon_does_not_wake_up))
