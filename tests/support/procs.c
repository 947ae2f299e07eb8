/* SPDX-License-Identifier: MIT */
/*
 * procs.c - client processes, other programs, what /proc says about them, and threads that hang.
 */
#include "tests/support/procs.h"

#include "tests/support/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

pid_t client_fork(void (*fn)(void *arg), void *arg) {
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fn(arg);
    fflush(NULL);
    _exit(0); /* the parent's exit handlers are not ours to run */
}

void client_expect_ok(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "client %d ended with wait status %#x",
          (int)pid, (unsigned)status);
}

void client_kill(pid_t pid) {
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid, "waitpid: %s", strerror(errno));
}

bool client_running(pid_t pid) {
    siginfo_t info = {0};
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0, "waitid: %s",
          strerror(errno));
    return info.si_pid == 0;
}

int run_program(const char *const *argv, char *out, size_t size) {
    int pipefd[2];
    CHECK(pipe2(pipefd, O_CLOEXEC) == 0, "pipe2: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(pipefd[1], 1) < 0 || dup2(pipefd[1], 2) < 0)
            _exit(126);
        execv(argv[0], (char *const *)argv);
        perror(argv[0]);
        _exit(127);
    }
    close(pipefd[1]);
    char scrap[4096];
    size_t used = 0;
    for (;;) {
        bool keep = out && used + 1 < size;
        ssize_t n =
            read(pipefd[0], keep ? out + used : scrap, keep ? size - 1 - used : sizeof(scrap));
        if (n <= 0 && !(n < 0 && errno == EINTR))
            break;
        if (keep && n > 0)
            used += (size_t)n;
    }
    if (out && size)
        out[used] = 0;
    close(pipefd[0]);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- /proc --------------------------------------------------------------------------------- */

unsigned open_fds(pid_t pid) {
    char path[64] = "/proc/self/fd";
    unsigned count = 0;
    if (pid)
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    CHECK(dir, "%s: %s", path, strerror(errno));
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return pid ? count : count - 1; /* our own list counts itself */
}

unsigned epoll_watches(int epoll) {
    char path[64], line[256];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
    FILE *f = fopen(path, "re");
    CHECK(f, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), f))
        count += strncmp(line, "tfd:", 4) == 0;
    fclose(f);
    return count;
}

pid_t holder_fork(void) {
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    CHECK(pid >= 0, "clone: %s", strerror(errno));
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

void holder_end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

uint64_t process_rss_bytes(pid_t pid) {
    char path[64];
    unsigned long long size, resident;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "re");
    CHECK(f, "%s: %s", path, strerror(errno));
    int n = fscanf(f, "%llu %llu", &size, &resident);
    fclose(f);
    CHECK(n == 2, "%s is odd", path);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t process_peak_bytes(pid_t pid) {
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    CHECK(f, "%s: %s", path, strerror(errno));
    while (!kib && fgets(line, sizeof(line), f))
        sscanf(line, "VmHWM: %llu kB", &kib);
    fclose(f);
    CHECK(kib, "%s has no VmHWM", path);
    return (uint64_t)kib << 10;
}

uint64_t process_cpu_ticks(pid_t pid) {
    char path[64], text[1024];
    unsigned long long user, system;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    CHECK(f && fgets(text, sizeof(text), f), "%s: %s", path, strerror(errno));
    fclose(f);
    const char *after_name = strrchr(text, ')');
    CHECK(after_name &&
              sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                     &system) == 2,
          "%s is odd", path);
    return user + system;
}

/* Returns how many there are. */
static unsigned each_thread(pid_t pid, void (*each)(pid_t pid, const char *tid, void *arg),
                            void *arg) {
    char path[64];
    unsigned n = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        each(pid, e->d_name, arg);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

/* The first line of a file of a thread's, "-" if there is none. */
static const char *thread_file(pid_t pid, const char *tid, const char *file, char *buf, int size) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%.20s/%s", (int)pid, tid, file);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(buf, size, f))
        snprintf(buf, (size_t)size, "-");
    if (f)
        fclose(f);
    buf[strcspn(buf, "\n")] = 0;
    return buf;
}

/* Of a thread that has ended meanwhile: 0. */
static void add_crowded_ns(pid_t pid, const char *tid, void *sum) {
    char line[128];
    unsigned long long delay;
    thread_file(pid, tid, "schedstat", line, sizeof(line));
    if (sscanf(line, "%*u %llu", &delay) == 1)
        *(uint64_t *)sum += delay;
}

uint64_t process_crowded_ns(pid_t pid) {
    uint64_t sum = 0;
    each_thread(pid, add_crowded_ns, &sum);
    return sum;
}

static void add_sleeps(pid_t pid, const char *tid, void *sum) {
    char path[64], line[256];
    unsigned long n;
    snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int)pid, tid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
            *(uint64_t *)sum += n;
    if (f)
        fclose(f);
}

uint64_t process_sleeps(pid_t pid) {
    uint64_t sum = 0;
    CHECK(each_thread(pid, add_sleeps, &sum), "process %d has no threads", (int)pid);
    return sum;
}

static void show_thread(pid_t pid, const char *tid, void *to) {
    char comm[64], call[64], stat[256];
    const char *after_name = strrchr(thread_file(pid, tid, "stat", stat, sizeof(stat)), ')');
    fprintf(to, "    thread %s, %s: %.1s, syscall %s\n", tid,
            thread_file(pid, tid, "comm", comm, sizeof(comm)), after_name ? after_name + 2 : "-",
            thread_file(pid, tid, "syscall", call, sizeof(call)));
}

void process_show_threads(pid_t pid, FILE *to) {
    each_thread(pid, show_thread, to);
}

static void show_children(pid_t pid, const char *tid, void *to) {
    char path[64];
    int child;
    snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid, tid);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%d", &child) == 1)
        process_show_tree(child, to);
    if (f)
        fclose(f);
}

void process_show_tree(pid_t pid, FILE *to) {
    fprintf(to, "  process %d\n", (int)pid);
    process_show_threads(pid, to);
    each_thread(pid, show_children, to);
}

/* ---- little things ------------------------------------------------------------------------- */

const char *build_path(const char *relative, char *buf, size_t size) {
    const char *build = getenv("RDMAD_BUILD");
    CHECK(build, "RDMAD_BUILD is not set: run the test by ctest");
    int n = snprintf(buf, size, "%s/%s", build, relative);
    CHECK(n > 0 && (size_t)n < size, "path too long");
    return buf;
}

void sleep_ms(unsigned ms) {
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        ;
}

uint64_t now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t test_random(void) {
    static uint64_t x;
    static pid_t seeded_by;
    if (!x) {
        const char *text = getenv("RDMAD_TEST_SEED");
        x = text ? strtoull(text, NULL, 0) : now_ms() * 2654435761u + (uint64_t)getpid();
        x |= 1;
        seeded_by = getpid();
        printf("  RDMAD_TEST_SEED=%#llx\n", (unsigned long long)x);
    } else if (seeded_by != getpid()) { /* a child goes its own way, yet a repeatable one */
        x ^= 0x9e3779b97f4a7c15u;
        seeded_by = getpid();
    }
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

/* ---- processes that are stopped ------------------------------------------------------------ */

/* One that is traced stands still, too; and one that has ended meanwhile. */
static void count_stopped(pid_t pid, const char *tid, void *stopped) {
    char line[256];
    const char *after_name = strrchr(thread_file(pid, tid, "stat", line, sizeof(line)), ')');
    *(unsigned *)stopped +=
        !after_name || strncmp(after_name, ") T", 3) == 0 || strncmp(after_name, ") t", 3) == 0;
}

bool process_is_stopped(pid_t pid) {
    unsigned stopped = 0, all = each_thread(pid, count_stopped, &stopped);
    return all && stopped == all;
}

void process_stop(pid_t pid) {
    CHECK(!kill(pid, SIGSTOP), "SIGSTOP to %d: %s", (int)pid, strerror(errno));
    for (uint64_t since = now_ms(); !process_is_stopped(pid); sleep_ms(1))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "process %d does not stop", (int)pid);
}

void process_go_on(pid_t pid) {
    CHECK(!kill(pid, SIGCONT), "SIGCONT to %d: %s", (int)pid, strerror(errno));
}

/* ---- threads that hang --------------------------------------------------------------------- */

struct thread_found {
    const char *name;
    pid_t tid;
};

static void match_thread(pid_t pid, const char *tid, void *arg) {
    struct thread_found *found = arg;
    char comm[32];
    if (!found->tid && strcmp(thread_file(pid, tid, "comm", comm, sizeof(comm)), found->name) == 0)
        found->tid = (pid_t)strtol(tid, NULL, 10);
}

pid_t process_find_thread(pid_t pid, const char *name) {
    struct thread_found found = {.name = name};
    each_thread(pid, match_thread, &found);
    CHECK(found.tid, "process %d has no thread %s", (int)pid, name);
    return found.tid;
}

/* Whether a stopped thread was in a wait for events that takes time. There it holds no lock. */
static bool sleeps_for_events(pid_t pid, pid_t tid) {
    char path[64];
    long call = -1, timeout = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
    FILE *f = fopen(path, "re");
    CHECK(f, "%s: %s", path, strerror(errno));
    int got = fscanf(f, "%ld %*s %*s %*s %li", &call, &timeout);
    fclose(f);
#ifdef SYS_epoll_wait /* newer architectures have no other than epoll_pwait */
    if (call == SYS_epoll_wait)
        return got == 2 && timeout != 0;
#endif
    return got == 2 && call == SYS_epoll_pwait && timeout != 0;
}

static void interrupt_thread(pid_t tid) {
    int status;
    CHECK(!ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), "thread %d: %s", (int)tid, strerror(errno));
    CHECK(waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status), "thread %d does not stop",
          (int)tid);
}

/* A stop by ptrace is one thread's alone, a signal's is the whole process's. */
pid_t thread_stop(pid_t pid, const char *name) {
    pid_t tid = name ? process_find_thread(pid, name) : pid;
    CHECK(!ptrace(PTRACE_SEIZE, tid, NULL, NULL), "thread %d cannot be traced: %s", (int)tid,
          strerror(errno));
    interrupt_thread(tid);
    for (unsigned tries = TEST_PATIENCE_MS; !sleeps_for_events(pid, tid); tries--) {
        CHECK(tries > 0, "thread %d was never seen to sleep", (int)tid);
        CHECK(!ptrace(PTRACE_CONT, tid, NULL, NULL), "thread %d: %s", (int)tid, strerror(errno));
        sleep_ms(1);
        interrupt_thread(tid);
    }
    return tid;
}

void thread_go_on(pid_t tid) {
    CHECK(!ptrace(PTRACE_DETACH, tid, NULL, NULL), "thread %d: %s", (int)tid, strerror(errno));
}
