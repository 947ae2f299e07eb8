/* SPDX-License-Identifier: MIT */
/*
 * harness.c - starting, asking and ending daemons under test.
 *
 * A daemon writes its log and any sanitizer report into its own directory; whatever ends it, the
 * directory is then searched for reports, and a report fails the case even if the exit code was 0.
 */
#include "tests/support/harness.h"
#include "tests/support/daemon_env.h"

#include "tests/support/admin.h"
#include "tests/support/procs.h"
#include "tests/support/temp.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 32, START_MS = 20000, STOP_MS = 30000, LOG_END = 4000, LOG_DELAY_MS = 500 };

struct tdaemon {
    char dir[64];
    char listen[64];
    char config[96]; /* of ours: a test sets none, or the fabric is not tcp */
    const char *args[MAX_ARGS];
    pid_t pid;   /* 0: not running */
    int port_fd; /* keeps its port */
    bool porter_killed;
    pid_t of;             /* the process that started it */
    struct tdaemon *next; /* of the daemons that are there */
};
static struct tdaemon *daemons;

const char *tdaemon_dir(const struct tdaemon *d) {
    return d->dir;
}
const char *tdaemon_listen(const struct tdaemon *d) {
    return d->listen;
}
pid_t tdaemon_pid(const struct tdaemon *d) {
    return d->pid;
}

/* ---- files of the daemon ------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void show_end_of(const char *path, long bytes) {
    char line[1024];
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    fprintf(stderr, "---- %s\n", path);
    if (fseek(f, -bytes, SEEK_END) == 0 && fgets(line, sizeof(line), f))
        fputs("[...]\n", stderr);
    else
        rewind(f);
    while (fgets(line, sizeof(line), f))
        fputs(line, stderr);
    fclose(f);
}

static void show_file(const char *path) {
    show_end_of(path, LONG_MAX);
}

static void log_path(const struct tdaemon *d, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/log", d->dir);
}

static void show_descriptors(pid_t pid) {
    char path[64], name[400], target[200];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    fprintf(stderr, "---- descriptors:");
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        ssize_t n = readlink(name, target, sizeof(target));
        if (n > 0)
            fprintf(stderr, " %s=%.*s", e->d_name, (int)n, target);
    }
    fputc('\n', stderr);
    if (dir)
        closedir(dir);
}

/* What it holds, if it still answers. */
static void show_held(const struct tdaemon *d) {
    static const char *const asked[] = {"status", "session.show", "peer.show", "link.show"};
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        json_t *reply = admin_call(d->dir, asked[i], NULL);
        char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
        fprintf(stderr, "---- %s: %.*s\n", asked[i], LOG_END, text ? text : "no answer");
        free(text);
        json_decref(reply);
    }
}

/* What a test's daemons said last, do and hold, when it fails, and what it does itself (threads of
 * the library among them); of a child that fails the parent shows it. They may say more than they
 * have written yet: why a link was lost is told after its ops ended. */
static void show_ends_of_logs(void) {
    char path[PATH_MAX];
    sleep_ms(LOG_DELAY_MS);
    for (const struct tdaemon *d = daemons; d; d = d->next) {
        log_path(d, path);
        if (d->of != getpid())
            continue;
        show_end_of(path, LOG_END);
        if (d->pid) {
            process_show_threads(d->pid, stderr);
            show_descriptors(d->pid);
            show_held(d);
        }
    }
    fprintf(stderr, "---- the test itself\n");
    process_show_threads(getpid(), stderr);
}

static void add_daemon(struct tdaemon *d) {
    d->of = getpid();
    d->next = daemons;
    daemons = d;
    on_check_failed(show_ends_of_logs);
}

static void take_daemon(struct tdaemon *d) {
    struct tdaemon **at = &daemons;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
}

static unsigned reports;

static int find_report(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    if (type == FTW_F && strncmp(path + ftw->base, "report.", 7) == 0) {
        show_file(path);
        reports++;
    }
    return 0;
}

static bool log_has(const char *path, const char *text) {
    char line[2048];
    bool found = false;
    FILE *f = fopen(path, "re");
    CHECK(f, "%s: %s", path, strerror(errno));
    while (!found && fgets(line, sizeof(line), f))
        found = strstr(line, text) != NULL;
    fclose(f);
    return found;
}

/* The log has a thread of its own: a line may come a good while after what it tells of. */
static bool log_tells_within(const char *path, const char *text, uint64_t ms) {
    uint64_t deadline = now_ms() + ms;
    bool found;
    while (!(found = log_has(path, text)) && now_ms() < deadline)
        sleep_ms(50);
    return found;
}

bool log_tells(const char *path, const char *text) {
    return log_tells_within(path, text, TEST_PATIENCE_MS);
}

bool log_is_silent(const char *path, const char *text) {
    return !log_tells_within(path, text, 1000);
}

static void expect_no_reports(const struct tdaemon *d) {
    char log[PATH_MAX];
    reports = 0;
    log_path(d, log);
    nftw(d->dir, find_report, 8, FTW_PHYS);
    if (!d->porter_killed && log_has(log, "the porter "))
        CHECK(0, "the porter of rdmad in %s ended or hung", d->dir);
    CHECK(reports == 0, "rdmad in %s wrote %u sanitizer reports (above)", d->dir, reports);
}

bool tdaemon_logged(const struct tdaemon *d, const char *text) {
    char log[PATH_MAX];
    log_path(d, log);
    return log_tells(log, text);
}

bool tdaemon_silent(const struct tdaemon *d, const char *text) {
    char log[PATH_MAX];
    log_path(d, log);
    return log_is_silent(log, text);
}

/* ---- start and stop ------------------------------------------------------------------------ */

static const char *program = "daemon/rdmad";

void tdaemon_use(const char *relative) {
    program = relative;
}

/* Allocates nothing (tests/support/daemon_env.h). */
static _Noreturn void exec_daemon(const struct tdaemon *d) {
    struct daemon_env env;
    char log[PATH_MAX], path[PATH_MAX];
    const char *argv[MAX_ARGS + 8] = {*program == '/' ? program
                                                      : build_path(program, path, sizeof(path)),
                                      "--runtime-dir", d->dir, "--listen", d->listen};
    for (unsigned i = 0, n = 5; d->args[i]; i++)
        argv[n++] = d->args[i];
    snprintf(log, sizeof(log), "%s/log", d->dir);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || !daemon_env_make(&env, d->dir))
        _exit(126);
    execve(argv[0], (char *const *)argv, env.words);
    perror(argv[0]);
    _exit(127);
}

/* status's listen is {"host", "port"}. */
static bool answers(struct tdaemon *d) {
    json_t *reply = admin_call(d->dir, "status", NULL);
    const char *host = NULL;
    int port = 0;
    bool ok = json_unpack(reply, "{s:{s:{s:s, s:i}}}", "result", "listen", "host", &host, "port",
                          &port) == 0;
    if (ok)
        snprintf(d->listen, sizeof(d->listen), "%s:%d", host, port);
    json_decref(reply);
    return ok;
}

/* False: it has ended. */
static bool await_ready(struct tdaemon *d, int *status) {
    uint64_t deadline = now_ms() + (uint64_t)START_MS * test_patience();
    while (!answers(d)) {
        if (waitpid(d->pid, status, WNOHANG) == d->pid)
            return false;
        CHECK(now_ms() <= deadline, "rdmad did not answer status within %d ms", START_MS);
        sleep_ms(5);
    }
    return true;
}

static bool launch_it(struct tdaemon *d, int *status) {
    fflush(NULL);
    d->pid = fork();
    CHECK(d->pid >= 0, "fork: %s", strerror(errno));
    if (d->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exec_daemon(d);
    }
    return await_ready(d, status);
}

static void launch(struct tdaemon *d) {
    int status = 0;
    if (launch_it(d, &status))
        return;
    CHECK(0, "rdmad ended while starting, wait status %#x", (unsigned)status);
}

const char *test_fabric(void) {
    const char *name = getenv("RDMAD_TEST_FABRIC");
    return name && *name ? name : "tcp";
}

static bool silence_is_tried;

void tdaemon_notice_silence_soon(void) {
    silence_is_tried = true;
}

/* A busy host makes the processors of the guest stand still for longer than a link bears by
 * default, half a second of silence: it bears a second. */
static unsigned verbs_timeout(void) {
    return silence_is_tried || test_patience() == 1 ? 14 : 15;
}

/* What a test has that sets nothing: a peer that does not come back is given up while the case
 * waits for that; what is in flight when a lease ends takes longer over Soft-RoCE in the guest. */
#define OF_TCP "{\"peer\": {\"return_ms\": 5000}}\n"
#define OF_VERBS "{\"peer\": {\"return_ms\": 5000}, \"lease\": {\"revoke_grace_ms\": 3000}}\n"

static void write_settings(const char *path, const char *text) {
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s: %s", path, strerror(errno));
}

static void configure_verbs(const struct tdaemon *d) {
    static unsigned started;
    char path[128], text[160];
    snprintf(path, sizeof(path), "%s.d", d->config);
    CHECK(mkdir(path, 0755) == 0, "%s: %s", path, strerror(errno));
    snprintf(path, sizeof(path), "%s.d/fabric.json", d->config);
    snprintf(text, sizeof(text),
             "{\"fabric\": \"%s\", \"verbs\": {\"device\": \"rxe%u\", \"timeout\": %u}}\n",
             test_fabric(), started++ % 2, verbs_timeout());
    write_settings(path, text);
}

/* A test's own configuration file stays where it is, so that it may change it and reload; where the
 * fabric is set beside it, ours is a link to it. Returns which the daemon reads. */
static const char *configure(struct tdaemon *d, const char *theirs) {
    const bool tcp = strcmp(test_fabric(), "tcp") == 0;
    if (tcp && theirs)
        return theirs;
    snprintf(d->config, sizeof(d->config), "%s/rdmad.json", d->dir);
    if (!tcp)
        configure_verbs(d);
    if (theirs)
        CHECK(symlink(theirs, d->config) == 0, "%s: %s", d->config, strerror(errno));
    else
        write_settings(d->config, tcp ? OF_TCP : OF_VERBS);
    return d->config;
}

/* Takes the test's arguments, but with its configuration file inside ours. */
static void take_arguments(struct tdaemon *d, const char *const *args) {
    const char *theirs = NULL;
    unsigned n = 0;
    for (unsigned i = 0; args && args[i]; i++) {
        CHECK(n < MAX_ARGS - 4, "too many arguments");
        if (strcmp(args[i], "--config") == 0)
            theirs = args[++i];
        else
            d->args[n++] = args[i];
    }
    d->args[n++] = "--config";
    d->args[n] = configure(d, theirs);
}

/* A port that is the daemon's until destroy, also while it does not run. A bound socket that does
 * not listen keeps the kernel from giving the port to anybody who asks for any, be it by bind or
 * connect; with SO_REUSEADDR at both it does not keep the daemon from listening there. */
static void keep_port(struct tdaemon *d, const char *host) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    int one = 1;
    CHECK(inet_pton(AF_INET, host, &at.sin_addr) == 1, "%s is no IPv4 address", host);
    d->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(d->port_fd >= 0 &&
              setsockopt(d->port_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
              bind(d->port_fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
              getsockname(d->port_fd, (struct sockaddr *)&at, &size) == 0,
          "a port at %s: %s", host, strerror(errno));
    snprintf(d->listen, sizeof(d->listen), "%s:%u", host, (unsigned)ntohs(at.sin_port));
}

struct tdaemon *tdaemon_start(const char *host, const char *const *args) {
    struct tdaemon *d = calloc(1, sizeof(*d));
    CHECK(d, "out of memory");
    CHECK(temp_dir(d->dir, sizeof(d->dir), 40, "rdmad"), "%s: %s", d->dir, strerror(errno));
    chmod(d->dir, 0755); /* clients of other uids are tested too */
    char reports_dir[80];
    snprintf(reports_dir, sizeof(reports_dir), "%s/reports", d->dir);
    CHECK(mkdir(reports_dir, 0755) == 0 && chmod(reports_dir, 01777) == 0, "%s: %s", reports_dir,
          strerror(errno));
    keep_port(d, host);
    take_arguments(d, args);
    add_daemon(d);
    launch(d);
    return d;
}

void tdaemon_restart(struct tdaemon *d) {
    CHECK(d->pid == 0, "kill it first");
    launch(d);
}

static void read_log(const struct tdaemon *d, char *said, size_t size) {
    char log[PATH_MAX];
    log_path(d, log);
    FILE *f = fopen(log, "re");
    CHECK(f, "%s: %s", log, strerror(errno));
    said[fread(said, 1, size - 1, f)] = '\0';
    fclose(f);
}

int tdaemon_try_restart(struct tdaemon *d, char *said, size_t size) {
    char log[PATH_MAX];
    int status = 0;
    CHECK(d->pid == 0, "kill it first");
    log_path(d, log);
    unlink(log);
    bool runs = launch_it(d, &status);
    read_log(d, said, size);
    if (runs)
        return 0;
    d->pid = 0;
    CHECK(status, "rdmad ended while starting, as if all were well: %s", said);
    return status;
}

static void destroy(struct tdaemon *d) {
    expect_no_reports(d);
    nftw(d->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    close(d->port_fd);
    take_daemon(d);
    free(d);
}

pid_t tdaemon_kill_and_leave(struct tdaemon *d) {
    pid_t pid = d->pid;
    CHECK(pid > 0, "not running");
    kill(pid, SIGKILL);
    d->pid = 0;
    return pid;
}

void tdaemon_kill(struct tdaemon *d) {
    pid_t pid = tdaemon_kill_and_leave(d);
    CHECK(waitpid(pid, NULL, 0) == pid, "waitpid: %s", strerror(errno));
}

void tdaemon_end(struct tdaemon *d) {
    if (d->pid) {
        int status = 0;
        uint64_t deadline = now_ms() + (uint64_t)STOP_MS * test_patience();
        kill(d->pid, SIGTERM);
        while (waitpid(d->pid, &status, WNOHANG) == 0) {
            CHECK(now_ms() <= deadline, "rdmad did not stop within %d ms of SIGTERM", STOP_MS);
            sleep_ms(2);
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            expect_no_reports(d);
            CHECK(0, "rdmad ended with wait status %#x after SIGTERM", (unsigned)status);
        }
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/rdmad.sock", d->dir);
        CHECK(access(path, F_OK) != 0, "rdmad left %s behind", path);
        snprintf(path, sizeof(path), "%s/control.sock", d->dir);
        CHECK(access(path, F_OK) != 0, "rdmad left %s behind", path);
    }
    d->pid = 0;
}

void tdaemon_stop(struct tdaemon *d) {
    tdaemon_end(d);
    destroy(d);
}

/* ---- asking -------------------------------------------------------------------------------- */

json_t *tdaemon_call(struct tdaemon *d, const char *method, json_t *params) {
    json_t *reply = admin_call(d->dir, method, params);
    CHECK(reply, "rdmad does not answer %s", method);
    json_t *result = json_incref(json_object_get(reply, "result"));
    char *text = json_dumps(reply, JSON_COMPACT);
    CHECK(result, "%s: %s", method, text);
    free(text);
    json_decref(reply);
    return result;
}

json_t *tdaemon_status(struct tdaemon *d) {
    return tdaemon_call(d, "status", NULL);
}

uint64_t tdaemon_used(struct tdaemon *d, const char *limit) {
    json_t *status = tdaemon_status(d);
    json_int_t n = json_integer_value(
        json_object_get(json_object_get(json_object_get(status, "limits"), limit), "used"));
    json_decref(status);
    return (uint64_t)n;
}

json_t *tdaemon_objects(struct tdaemon *d) {
    json_t *status = tdaemon_status(d);
    json_t *objects = json_incref(json_object_get(status, "objects"));
    CHECK(json_is_object(objects), "status has no objects");
    json_decref(status);
    return objects;
}

json_t *tdaemon_objects_of_clients(struct tdaemon *d) {
    static const char *const of_peers[] = {"peers", "links", "lanes_in", "lanes_in_encrypted",
                                           "fds"};
    json_t *objects = tdaemon_objects(d);
    for (size_t i = 0; i < sizeof(of_peers) / sizeof(of_peers[0]); i++)
        json_object_del(objects, of_peers[i]);
    return objects;
}

/* Those that before names: a test with a neighbour at work leaves out what flickers. */
static bool same_numbers(json_t *now, json_t *before) {
    const char *key;
    json_t *value;
    json_object_foreach(before, key, value) {
        if (!json_equal(json_object_get(now, key), value))
            return false;
    }
    return true;
}

void tdaemon_expect_objects(struct tdaemon *d, json_t *before) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    for (;;) {
        json_t *now = tdaemon_objects(d);
        bool same = same_numbers(now, before);
        if (!same && now_ms() > deadline) {
            char *was = json_dumps(before, JSON_COMPACT), *is = json_dumps(now, JSON_COMPACT);
            CHECK(0, "objects do not come back:\n    was %s\n    is  %s", was, is);
        }
        json_decref(now);
        if (same)
            break;
        sleep_ms(5);
    }
    json_decref(before);
}

void tdaemon_expect_no_session(struct tdaemon *d) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS, sessions;
    while ((sessions = tdaemon_used(d, "sessions"))) {
        CHECK(now_ms() < deadline, "%" PRIu64 " sessions do not end", sessions);
        sleep_ms(5);
    }
}

pid_t tdaemon_porter(struct tdaemon *d) {
    json_t *status = tdaemon_status(d);
    json_int_t pid = json_integer_value(json_object_get(json_object_get(status, "porter"), "pid"));
    json_decref(status);
    return (pid_t)pid;
}

void tdaemon_kill_porter(struct tdaemon *d) {
    pid_t before = tdaemon_porter(d), now;
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    d->porter_killed = true;
    CHECK(before > 0 && kill(before, SIGKILL) == 0, "the porter: %s", strerror(errno));
    while ((now = tdaemon_porter(d)) == before || !now) {
        CHECK(now_ms() < deadline, "no other porter was started");
        sleep_ms(5);
    }
}

unsigned tdaemon_fds(const struct tdaemon *d) {
    return open_fds(d->pid);
}
uint64_t tdaemon_rss_bytes(const struct tdaemon *d) {
    return process_rss_bytes(d->pid);
}
uint64_t tdaemon_cpu_ticks(const struct tdaemon *d) {
    return process_cpu_ticks(d->pid);
}

void tdaemon_expect_fds(struct tdaemon *d, unsigned at_most) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    unsigned now;
    while ((now = tdaemon_fds(d)) > at_most) {
        CHECK(now_ms() < deadline, "rdmad holds %u descriptors, at most %u expected", now, at_most);
        sleep_ms(10);
    }
}

void need_hole_guard(void) {
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* user mode only */);
    if (fd < 0)
        skip("no userfaultfd: %s", strerror(errno));
    close(fd);
}
