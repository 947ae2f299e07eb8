/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor.c - what commonly goes wrong, checked one by one, each with what to do about it.
 *
 * A check says good, note (nothing to do, but worth knowing), warning or bad. One bad check makes
 * the exit code 1. Checks that need the daemon's own facts are skipped, and say so, without them.
 */
#include "rdmactl/cli.h"
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum level { GOOD, NOTE, WARNING, BAD };

struct exam {
    const json_t *status; /* NULL: the daemon did not answer */
    struct failure why;   /* then */
    double answer_ms;
    const char *check;
    json_t *rows;
    bool bad;
};

__attribute__((format(printf, 3, 4))) static void say(struct exam *e, enum level level,
                                                      const char *format, ...) {
    static const char *const names[] = {"good", "note", "warning", "bad"};
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (level == BAD)
        e->bad = true;
    json_t *words = json_string(text);
    json_array_append_new(e->rows,
                          json_pack("{s:s, s:s, s:o}", "check", e->check, "result", names[level],
                                    "text", words ? words : json_string("(not UTF-8)")));
}

static const json_t *fact(const struct exam *e, const char *outer, const char *inner) {
    const json_t *o = json_object_get(e->status, outer);
    return inner ? json_object_get(o, inner) : o;
}

static const char *fact_text(const struct exam *e, const char *outer, const char *inner) {
    const char *s = json_string_value(fact(e, outer, inner));
    return s ? s : "";
}

/* The first line of a file; false when it cannot be read. */
static bool first_line(const char *path, char *buf, size_t size) {
    FILE *f = fopen(path, "re");
    bool good = f && fgets(buf, (int)size, f);
    if (f)
        fclose(f);
    if (good)
        buf[strcspn(buf, "\n")] = '\0';
    return good;
}

/* Names in a directory, joined; returns how many. */
static unsigned names_in(const char *path, char *buf, size_t size) {
    DIR *dir = opendir(path);
    unsigned n = 0;
    buf[0] = '\0';
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        size_t used = strlen(buf);
        snprintf(buf + used, size - used, "%s%s", n++ ? ", " : "", entry->d_name);
    }
    if (dir)
        closedir(dir);
    return n;
}

static void check_runtime_dir(struct exam *e) {
    struct stat st;
    if (stat(cli.dir, &st))
        say(e, BAD, "%s: %s; start rdmad, or name its directory with -d", cli.dir, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        say(e, BAD, "%s is not a directory", cli.dir);
    else if (st.st_mode & S_IWOTH)
        say(e, BAD,
            "%s is writable by everybody, who could put a socket of their own there: "
            "chmod o-w it",
            cli.dir);
    else
        say(e, GOOD, "%s, mode %04o", cli.dir, (unsigned)(st.st_mode & 07777));
}

static void check_control(struct exam *e) {
    if (!e->status)
        say(e, BAD, "%s", e->why.text);
    else if (e->answer_ms > 200)
        say(e, WARNING, "status took %.0f ms: the daemon or the machine is overloaded",
            e->answer_ms);
    else
        say(e, GOOD, "status answered in %.1f ms", e->answer_ms);
}

static void check_client_socket(struct exam *e) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/rdmad.sock", cli.dir);
    if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
        say(e, BAD, "the path of the runtime directory is too long");
        return;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address)))
        say(e, GOOD, "%s takes connections", address.sun_path);
    else if (errno == EACCES)
        say(e, BAD, "%s may not be opened by uid %u: join the group of the setting socket_group",
            address.sun_path, (unsigned)geteuid());
    else
        say(e, BAD, "%s: %s", address.sun_path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void check_permission(struct exam *e) {
    json_int_t owner = json_integer_value(fact(e, "process", "uid"));
    if (geteuid() == 0 || geteuid() == (uid_t)owner)
        say(e, GOOD, "uid %u may read and change", (unsigned)geteuid());
    else
        say(e, NOTE, "uid %u may read; lease revoke and peer add are for root and uid %d",
            (unsigned)geteuid(), (int)owner);
}

static void check_version(struct exam *e) {
    const char *daemon = fact_text(e, "version", NULL);
    if (!strcmp(daemon, RDMAD_VERSION))
        say(e, GOOD, "daemon and rdmactl are both %s", daemon);
    else
        say(e, WARNING, "the daemon is %s, rdmactl is %s: restart the daemon after an upgrade",
            daemon, RDMAD_VERSION);
}

static void check_fabric(struct exam *e) {
    char devices[256];
    unsigned n = names_in("/sys/class/infiniband", devices, sizeof(devices));
    const char *name = fact_text(e, "fabric", "name");
    if (json_is_true(fact(e, "fabric", "rdma")))
        say(e, GOOD, "%s, RDMA hardware: %s", name, devices);
    else if (n)
        say(e, WARNING,
            "%s is in use although this machine has RDMA devices: %s. This version "
            "has no fabric for them",
            name, devices);
    else
        say(e, NOTE, "%s: RDMA over TCP; this machine has no RDMA device", name);
}

static void check_bypass(struct exam *e) {
    char nodes[256], path[320];
    struct stat st;
    if (!names_in("/dev/infiniband", nodes, sizeof(nodes))) {
        say(e, GOOD, "no device nodes that would let users pass the daemon by");
        return;
    }
    snprintf(path, sizeof(path), "/dev/infiniband/uverbs0");
    if (!stat(path, &st) && (st.st_mode & S_IWOTH))
        say(e, WARNING,
            "%s is open to every user, who can use the NIC without rdmad and its "
            "limits: tighten it with a udev rule",
            path);
    else
        say(e, GOOD, "/dev/infiniband is not open to everybody");
}

static void check_memlock(struct exam *e) {
    if (json_is_true(fact(e, "fabric", "rdma")))
        say(e, NOTE, "pools are pinned: the daemon needs CAP_IPC_LOCK or a large RLIMIT_MEMLOCK");
    else
        say(e, GOOD, "RLIMIT_MEMLOCK does not matter: this fabric pins no memory");
}

static void check_listen(struct exam *e) {
    const char *host = fact_text(e, "listen", "host");
    int port = (int)json_integer_value(fact(e, "listen", "port"));
    if (!strncmp(host, "127.", 4) || !strcmp(host, "::1") || !strcmp(host, "localhost"))
        say(e, NOTE,
            "%s port %d: only daemons of this machine can connect; --listen HOST:PORT "
            "opens it to others",
            host, port);
    else
        say(e, WARNING,
            "%s port %d is reachable from outside, and daemons do not authenticate "
            "each other in this version: trust the network or filter the port",
            host, port);
}

static void check_fds(struct exam *e) {
    const json_t *fds = fact(e, "limits", "fds");
    const json_t *sessions = fact(e, "limits", "sessions");
    double used = json_number_value(json_object_get(fds, "used"));
    double max = json_number_value(json_object_get(fds, "max"));
    double wanted = json_number_value(json_object_get(sessions, "max"));
    if (json_is_null(json_object_get(fds, "max")))
        say(e, GOOD, "%.0f descriptors open, no limit", used);
    else if (used > 0.9 * max)
        say(e, BAD, "%.0f of %.0f descriptors are open: raise LimitNOFILE", used, max);
    else if (wanted > max)
        say(e, WARNING,
            "up to %.0f sessions are allowed, but only %.0f descriptors: raise "
            "LimitNOFILE",
            wanted, max);
    else
        say(e, GOOD, "%.0f of %.0f descriptors are open", used, max);
}

static void check_limits(struct exam *e) {
    const char *key;
    json_t *limit;
    unsigned full = 0;
    json_object_foreach(json_object_get(e->status, "limits"), key, limit) {
        double used = json_number_value(json_object_get(limit, "used"));
        double max = json_number_value(json_object_get(limit, "max"));
        if (max > 0 && used > 0.9 * max && strcmp(key, "fds") != 0) {
            say(e, WARNING, "%s: %.0f of %.0f are in use; more will be refused", key, used, max);
            full++;
        }
    }
    if (!full)
        say(e, GOOD, "no limit of the daemon is nearly used up");
}

static void check_memory(struct exam *e) {
    char line[128] = "";
    unsigned long available_kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %lu", &available_kib) == 1)
            break;
    if (f)
        fclose(f);
    const json_t *limit = fact(e, "limits", "pool_bytes");
    double left = json_number_value(json_object_get(limit, "max")) -
                  json_number_value(json_object_get(limit, "used"));
    double available = (double)available_kib * 1024;
    char a[CELL_MAX], b[CELL_MAX];
    if (left > available)
        say(e, WARNING,
            "pools may still take %s, but %s of memory are available: lower "
            "limits.pool_bytes",
            human_bytes(a, left), human_bytes(b, available));
    else
        say(e, GOOD, "%s of memory are available", human_bytes(b, available));
}

static void check_hugepages(struct exam *e) {
    char count[32] = "0";
    bool known = first_line("/proc/sys/vm/nr_hugepages", count, sizeof(count));
    if (known && strcmp(count, "0") != 0)
        say(e, GOOD, "%s huge pages are reserved; pools may ask for them", count);
    else
        say(e, NOTE,
            "no huge pages are reserved: pools that ask for them are refused, others work "
            "(sysctl vm.nr_hugepages)");
}

static void check_congestion(struct exam *e) {
    char available[256] = "";
    const char *wanted = fact_text(e, "congestion_control", NULL);
    first_line("/proc/sys/net/ipv4/tcp_available_congestion_control", available, sizeof(available));
    const char *found = *wanted ? strstr(available, wanted) : NULL;
    if (!*wanted)
        say(e, NOTE, "the system's congestion control is used; bbr costs 3 to 4 times on loopback");
    else if (!found)
        say(e, BAD,
            "%s is configured, this kernel has %s: modprobe tcp_%s or change "
            "tcp.congestion_control",
            wanted, available, wanted);
    else
        say(e, GOOD, "%s is configured and available", wanted);
}

static void check_workers(struct exam *e) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    long workers = (long)json_integer_value(fact(e, "workers", NULL));
    if (workers >= cpus && workers > 1)
        say(e, WARNING, "%ld workers on %ld CPUs leave none for the clients", workers, cpus);
    else
        say(e, GOOD, "%ld workers on %ld CPUs", workers, cpus);
}

static const struct check {
    const char *name;
    void (*run)(struct exam *e);
    bool needs_daemon;
} checks[] = {
    {"runtime directory", check_runtime_dir, false},
    {"administration", check_control, false},
    {"client socket", check_client_socket, false},
    {"permission", check_permission, true},
    {"version", check_version, true},
    {"fabric", check_fabric, true},
    {"device nodes", check_bypass, false},
    {"locked memory", check_memlock, true},
    {"listen address", check_listen, true},
    {"descriptors", check_fds, true},
    {"limits", check_limits, true},
    {"memory", check_memory, true},
    {"huge pages", check_hugepages, false},
    {"congestion control", check_congestion, true},
    {"workers", check_workers, true},
};

static double now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void examine(struct exam *e) {
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        e->check = checks[i].name;
        if (e->status || !checks[i].needs_daemon)
            checks[i].run(e);
        else
            say(e, NOTE, "not checked, the daemon does not answer");
    }
}

int cmd_doctor(const struct command *self, int argc, char **argv) {
    int rc = args_parse(self, NULL, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    struct exam e = {.rows = json_array()};
    double start = now_ms();
    json_t *status = daemon_try("status", NULL, &e.why);
    e.answer_ms = now_ms() - start;
    e.status = status;
    examine(&e);
    json_decref(status);
    int code = e.bad ? EXIT_FAILED : EXIT_GOOD;
    if (cli.json) {
        print_json(json_pack("{s:b, s:o}", "healthy", !e.bad, "checks", e.rows));
        return code;
    }
    size_t i;
    json_t *row;
    json_array_foreach(e.rows, i, row) {
        printf("%-8s %-19s %s\n", json_string_value(json_object_get(row, "result")),
               json_string_value(json_object_get(row, "check")),
               json_string_value(json_object_get(row, "text")));
    }
    json_decref(e.rows);
    return code;
}
