/* SPDX-License-Identifier: MIT */
/*
 * doctor_daemon.c - the daemon's sockets, settings and limits, as it tells them itself.
 */
#include "rdmactl/doctor.h"
#include <errno.h>
#include <linux/magic.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* What is in memory goes with the machine's boot. */
static void exam_say_if_on_disk(struct exam *e) {
    struct statfs fs;
    if (statfs(cli.dir, &fs) || fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
        return;
    exam_say(e, WARNING,
             "%s is on no tmpfs: node.secret, with which sessions are resumed, stays on its disk",
             cli.dir);
    exam_next(e, "use a directory below /run");
}

void doctor_check_runtime_dir(struct exam *e) {
    struct stat st;
    if (stat(cli.dir, &st)) {
        exam_say(e, BAD, "%s: %s", cli.dir, strerror(errno));
        exam_next(e, "start rdmad (systemctl start rdmad), or name its directory with -d");
    } else if (!S_ISDIR(st.st_mode)) {
        exam_say(e, BAD, "%s is not a directory", cli.dir);
        exam_next(e, "name the daemon's directory with -d");
    } else if (st.st_mode & S_IWOTH) {
        exam_say(e, BAD, "%s is writable by everybody, who could put a socket of their own there",
                 cli.dir);
        exam_next(e, "chmod o-w %s", cli.dir);
    } else {
        exam_say(e, GOOD, "%s, mode %04o", cli.dir, (unsigned)(st.st_mode & 07777));
        exam_say_if_on_disk(e);
    }
}

void doctor_check_control(struct exam *e) {
    char path[256];
    snprintf(path, sizeof(path), "%s/control.sock", cli.dir);
    if (e->status && e->answer_ms > 200) {
        exam_say(e, WARNING, "status took %.0f ms", e->answer_ms);
        exam_next(e, "look at the load of the machine, and at rdmactl top");
    } else if (e->status) {
        exam_say(e, GOOD, "status answered in %.1f ms", e->answer_ms);
    } else if (!access(path, F_OK) && access(path, R_OK | W_OK)) {
        exam_say(e, BAD, "%s may not be opened by uid %u", path, (unsigned)geteuid());
        exam_next(e, "run as root, or as a member of the socket's group");
    } else {
        exam_say(e, BAD, "%s", e->why.text);
        if (!strcmp(e->why.code, "RDMAD_E_TIMEOUT"))
            exam_next(
                e,
                "it runs and does not answer: restart it (systemctl restart rdmad), and keep its "
                "log: journalctl -u rdmad");
        else
            exam_next(e, "start rdmad, and read its log: journalctl -u rdmad");
    }
}

/* A client that is turned away is told at once. */
static bool daemon_turned_away(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 200) > 0;
}

static void exam_say_who(struct exam *e, const char *path, int fd) {
    const char *group = exam_fact_text(e, "clients", "group"); /* "": everybody, or not known */
    if (e->status && !*group) {
        exam_say(e, GOOD, "%s takes connections", path);
    } else if (daemon_turned_away(fd)) {
        exam_say(e, BAD, "%s is for members of group %s, and uid %u is none", path,
                 *group ? group : "socket_group", (unsigned)geteuid());
        exam_next(e, "join the group, or change the setting socket_group");
    } else if (*group) {
        exam_say(e, GOOD, "%s takes connections of members of group %s", path, group);
    } else {
        exam_say(e, GOOD, "%s takes connections of uid %u", path, (unsigned)geteuid());
    }
}

void doctor_check_client_socket(struct exam *e) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = 1}; /* of connect, for a full backlog */
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/rdmad.sock", cli.dir);
    if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
        exam_say(e, BAD, "the path of the runtime directory is too long");
        exam_next(e, "use a runtime_dir of at most 79 characters");
        return;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        exam_say_who(e, address.sun_path, fd);
    } else if (errno == EACCES) {
        exam_say(e, BAD, "%s may not be opened by uid %u", address.sun_path, (unsigned)geteuid());
        exam_next(e, "join the group of the setting socket_group");
    } else {
        exam_say(e, BAD, "%s: %s", address.sun_path, strerror(errno));
        exam_next(e, "start rdmad, or its socket unit");
    }
    if (fd >= 0)
        close(fd);
}

void doctor_check_permission(struct exam *e) {
    json_int_t owner = json_integer_value(exam_fact(e, "process", "uid"));
    if (geteuid() == 0 || geteuid() == (uid_t)owner)
        exam_say(e, GOOD, "uid %u may read and change", (unsigned)geteuid());
    else if (!strcmp(exam_fact_text(e, "shown", NULL), "own"))
        exam_say(e, NOTE,
                 "uid %u sees and ends what is its own; everybody's is for root, uid %u and whom "
                 "the policy says (rdmactl policy show)",
                 (unsigned)geteuid(), (unsigned)owner);
    else
        exam_say(e, NOTE, "uid %u sees everybody's; what it may do: rdmactl policy show",
                 (unsigned)geteuid());
}

void doctor_check_version(struct exam *e) {
    const char *daemon = exam_fact_text(e, "version", NULL);
    if (!strcmp(daemon, RDMAD_VERSION)) {
        exam_say(e, GOOD, "daemon and rdmactl are both %s", daemon);
        return;
    }
    exam_say(e, WARNING, "the daemon is %s, rdmactl is %s", daemon, RDMAD_VERSION);
    exam_next(e, "rdmactl upgrade has the daemon become the installed version");
}

/* The row of the device in use; NULL when none is. */
static const json_t *exam_device(const struct exam *e) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(e->devices, "devices"), i, row) {
        if (json_is_true(json_object_get(row, "in_use")))
            return row;
    }
    return NULL;
}

static void doctor_check_device_in_use(struct exam *e) {
    const json_t *device = exam_device(e);
    const char *name = json_string_value(json_object_get(device, "name"));
    const char *how = json_string_value(json_object_get(device, "protection"));
    const char *why = json_string_value(json_object_get(e->devices, "why"));
    const char *trouble = exam_fact_text(e, "fabric", "trouble");
    if (device && *trouble) {
        exam_say(e, BAD,
                 "verbs, on %s, over which nothing goes now: %s; transfers wait, and end by their "
                 "deadline",
                 name, trouble);
        exam_next(e, "see the checks of ports and GIDs below, and rdmactl events --kind device");
    } else if (device) {
        exam_say(e, GOOD, "verbs, on %s; leases hold by %s", name, how && *how ? how : "(unknown)");
    } else if (!e->devices) {
        exam_say(e, WARNING, "verbs, but its devices cannot be looked at: %s", e->no_device.text);
        exam_next(e, "see rdmactl device show");
    } else {
        exam_say(e, BAD,
                 "verbs, but no device is in use now%s%s; transfers wait, and end by their "
                 "deadline",
                 why ? ": " : "", why ? why : "");
        exam_next(e, "see rdmactl device show");
    }
}

void doctor_check_fabric(struct exam *e) {
    const char *name = exam_fact_text(e, "fabric", "name");
    const char *why = exam_fact_text(e, "fabric", "why");
    const char *asked = json_string_value(json_object_get(e->config, "fabric"));
    bool wanted = asked && !strcmp(asked, "tcp");
    struct exam_names devices;
    if (exam_uses_verbs(e)) {
        doctor_check_device_in_use(e);
    } else if (!wanted && exam_names_in(e, "/sys/class/infiniband", &devices)) {
        exam_say(e, WARNING, "%s is in use although this machine has RDMA devices: %s", name, why);
        exam_next(e, "see the checks of devices below and rdmactl device show, then restart rdmad");
    } else {
        exam_say(e, NOTE, "%s: RDMA over TCP: %s", name, why);
    }
}

/* Which of them go over less than the daemon has. */
void doctor_check_peers(struct exam *e) {
    const char *name = exam_fact_text(e, "fabric", "name"),
               *other = exam_fact_text(e, "fabric", "fallback");
    int fallen = (int)json_integer_value(exam_fact(e, "fabric", "peers_fallen_back"));
    if (fallen) {
        exam_say(e, WARNING, "%d connection%s over %s: the daemon at the other end offers no %s",
                 fallen, fallen == 1 ? " goes" : "s go", other, name);
        exam_next(e,
                  "rdmactl peer show says which, with -j why; have them use RDMA, or refuse such "
                  "peers with \"peer.fallback_tcp\": false");
    } else if (*other) {
        exam_say(e, GOOD, "all go over %s; one that has none would go over %s, and be in the log",
                 name, other);
    } else {
        exam_say(e, GOOD, "all go over %s", name);
    }
}

void doctor_check_retries(struct exam *e) {
    double timeout = exam_setting(e, "verbs.timeout", 14),
           retries = exam_setting(e, "verbs.retry_count", 6);
    double rnr = exam_setting(e, "verbs.rnr_retry", 6);
    double lost_s = 4.096e-6 * exp2(timeout) * (retries + 1);
    char text[CELL_MAX];
    if (!exam_uses_verbs(e)) {
        exam_say(e, GOOD, "do not matter: data does not go over RDMA");
    } else if (!e->config) {
        exam_say(e, SKIPPED, "the daemon does not tell its settings");
    } else if (retries >= 7 || rnr >= 7) {
        exam_say(e, WARNING,
                 "%s is 7, which %s without end: a peer that vanishes may never be noticed",
                 retries >= 7 ? "verbs.retry_count" : "verbs.rnr_retry",
                 retries >= 7 ? "some devices take for" : "is");
        exam_next(e, "use at most 6");
    } else if (lost_s > 60) {
        exam_say(e, WARNING, "a peer that vanishes is noticed after %s at the earliest",
                 cli_human_seconds(text, lost_s));
        exam_next(e, "lower verbs.timeout or verbs.retry_count");
    } else {
        exam_say(e, GOOD, "a peer that vanishes is noticed after %s or a few times that",
                 cli_human_seconds(text, lost_s));
    }
}

void doctor_check_listen(struct exam *e) {
    const char *host = exam_fact_text(e, "listen", "host");
    int port = (int)json_integer_value(exam_fact(e, "listen", "port"));
    bool identity = exam_fact_text(e, "identity", "name")[0];
    if (json_is_false(exam_fact(e, "listen", "reachable"))) {
        exam_say(e, BAD,
                 "no interface has the address of %s port %d: no peer can reach this daemon", host,
                 port);
        exam_next(e, "bring the interface up, or choose another address with --listen HOST:PORT");
        return;
    }
    if (cli_is_loopback(host)) {
        exam_say(e, NOTE, "%s port %d: only daemons of this machine can connect", host, port);
        exam_next(e, identity ? "set \"listen\" to a HOST:PORT of others' and restart rdmad"
                              : "make an identity first (rdmactl cluster init or join), then set "
                                "\"listen\" and restart rdmad");
        return;
    }
    if (identity) {
        exam_say(e, GOOD, "%s port %d takes daemons that prove who they are", host, port);
        return;
    }
    exam_say(
        e, WARNING,
        "%s port %d is reachable from outside, and this daemon has no identity "
        "(peer.insecure): whoever reaches it can be a peer, and read and change what peers say",
        host, port);
    exam_next(e, "rdmactl cluster init or join; until then trust the network, or filter the port");
}

void doctor_check_identity(struct exam *e) {
    const char *name = exam_fact_text(e, "identity", "name");
    const char *warning = exam_fact_text(e, "identity", "warning");
    double left_s = json_number_value(exam_fact(e, "identity", "not_after")) - (double)time(NULL);
    if (!exam_fact(e, "identity", NULL)) {
        exam_say(e, SKIPPED, "the daemon does not tell its identity");
    } else if (warning[0]) {
        exam_say(e, name[0] && left_s < 86400 ? BAD : WARNING, "%s", warning);
        exam_next(e, "see IDENTITY in rdmad(8)");
    } else if (!name[0]) {
        exam_say(e, NOTE,
                 json_is_true(exam_fact(e, "identity", "insecure"))
                     ? "none: with peer.insecure other machines' daemons are talked to in clear"
                     : "none: other machines' daemons are not talked to");
        exam_next(e, "rdmactl cluster init or rdmactl cluster join makes one");
    } else {
        exam_say(e, GOOD, "%s, for another %.0f days", name, left_s / 86400);
    }
}

void doctor_check_fds(struct exam *e) {
    const json_t *fds = exam_fact(e, "limits", "fds");
    const json_t *sessions = exam_fact(e, "limits", "sessions");
    double used = json_number_value(json_object_get(fds, "used"));
    double max = json_number_value(json_object_get(fds, "max"));
    double wanted = json_number_value(json_object_get(sessions, "max"));
    if (json_is_null(json_object_get(fds, "max"))) {
        exam_say(e, GOOD, "%.0f descriptors open, no limit", used);
    } else if (used > 0.9 * max) {
        exam_say(e, BAD, "%.0f of %.0f descriptors are open", used, max);
        exam_next(e, "raise LimitNOFILE of the service");
    } else if (wanted > max) {
        exam_say(e, WARNING, "up to %.0f sessions are allowed, but only %.0f descriptors", wanted,
                 max);
        exam_next(e, "raise LimitNOFILE of the service");
    } else {
        exam_say(e, GOOD, "%.0f of %.0f descriptors are open", used, max);
    }
}

/* The daemon keeps an eighth for users who have nothing yet, so no limit is ever used up. */
#define NEARLY 0.8

/* What shows who has what a limit of status counts, and what raises it: limits.KEY, but for peers,
 * and for what the kernel bounds. */
static void exam_next_of_limit(struct exam *e, const char *key) {
    bool mappings = !strcmp(key, "mappings");
    if (!strcmp(key, "peers"))
        exam_next(e, "rdmactl peer show says who they are; or raise peer.max in rdmad.json, and "
                     "have it read: rdmactl reload");
    else if (mappings && exam_setting(e, "limits.mappings", 0) <= 0)
        exam_next(e, "rdmactl limit show says who has them; or raise what the kernel allows, of "
                     "which they are three quarters: sysctl vm.max_map_count=N, then rdmactl "
                     "reload");
    else
        exam_next(e,
                  "rdmactl %s show says who has them; or raise limits.%s in rdmad.json, and have "
                  "it read: rdmactl reload%s",
                  mappings || !strcmp(key, "registered_bytes") ? "limit" : "session", key,
                  mappings ? "; it may be three quarters of vm.max_map_count at most" : "");
}

void doctor_check_limits(struct exam *e) {
    const char *key;
    json_t *limit;
    unsigned full = 0;
    json_object_foreach(json_object_get(e->status, "limits"), key, limit) {
        double used = json_number_value(json_object_get(limit, "used"));
        double max = json_number_value(json_object_get(limit, "max"));
        if (max > 0 && used > NEARLY * max && strcmp(key, "fds") != 0) {
            exam_say(e, WARNING, "%s: %.0f of %.0f are in use; more will soon be refused", key,
                     used, max);
            exam_next_of_limit(e, key);
            full++;
        }
    }
    if (!full)
        exam_say(e, GOOD, "no limit of the daemon is nearly used up");
}

/* So many rows of users and peers are told of; the others are counted. */
#define TOLD_OF 8

/* Says of one row of limit.show that it is nearly used up; raised where it was given. */
static void say_own_limit(struct exam *e, const json_t *row) {
    const char *who = json_string_value(json_object_get(row, "who"));
    const char *key = json_string_value(json_object_get(row, "key"));
    const char *from = json_string_value(json_object_get(row, "from"));
    exam_say(e, WARNING, "%s: %s: %.0f of %.0f are in use; more will soon be refused", who, key,
             json_number_value(json_object_get(row, "used")),
             json_number_value(json_object_get(row, "value")));
    if (from && !strcmp(from, "settings"))
        exam_next(e,
                  "raise limits.%s in rdmad.json, and have it read: rdmactl reload; or, until "
                  "rdmad ends: rdmactl limit set %s %s=VALUE",
                  key, who, key);
    else
        exam_next(e,
                  "raise it where it was given, %s; or, until rdmad ends: rdmactl limit set "
                  "%s %s=VALUE",
                  from ? from : "rdmactl limit show says where", who, key);
}

void doctor_check_own_limits(struct exam *e) {
    size_t i;
    json_t *row;
    unsigned full = 0;
    json_array_foreach(e->limits, i, row) {
        double used = json_number_value(json_object_get(row, "used"));
        double value = json_number_value(json_object_get(row, "value"));
        bool whole = json_is_string(json_object_get(row, "who")) &&
                     json_is_string(json_object_get(row, "key"));
        if (whole && value > 0 && used > NEARLY * value && full++ < TOLD_OF)
            say_own_limit(e, row);
    }
    if (!e->limits) {
        exam_say(e, SKIPPED, "the daemon does not tell the limits of users");
    } else if (!full) {
        exam_say(e, GOOD, "no user has nearly used up a limit of his own");
    } else if (full > TOLD_OF) {
        exam_say(e, WARNING, "%u more are nearly used up", full - TOLD_OF);
        exam_next(e, "rdmactl limit show has all");
    }
}

/* Whether any does. */
static bool exam_say_silent(struct exam *e) {
    size_t i;
    json_t *row;
    json_array_foreach(exam_fact(e, "silent_threads", NULL), i, row) {
        const char *thread = json_string_value(json_object_get(row, "thread"));
        double s = json_number_value(json_object_get(row, "silent_s"));
        if (thread && !strcmp(thread, "rdmad-register")) {
            exam_say(e, WARNING,
                     "memory has been registered for %.1f s: it is very large, or a device or the "
                     "kernel hangs",
                     s);
            exam_next(e,
                      "see the kernel's log (dmesg); if it does not end: systemctl restart rdmad");
        } else {
            exam_say(e, BAD, "%s has not turned for %.1f s: its sessions stand still",
                     thread ? thread : "?", s);
            exam_next(e,
                      "keep the log (journalctl -u rdmad) and the kernel's (dmesg), then restart "
                      "it: systemctl restart rdmad; sessions are resumed");
        }
    }
    return i > 0;
}

void doctor_check_workers(struct exam *e) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    long workers = (long)json_integer_value(exam_fact(e, "workers", NULL));
    if (exam_say_silent(e))
        return;
    if (workers >= cpus && workers > 1) {
        exam_say(e, WARNING, "%ld workers on %ld CPUs leave none for the clients", workers, cpus);
        exam_next(e, "lower the setting workers");
    } else {
        exam_say(e, GOOD, "%ld workers on %ld CPUs", workers, cpus);
    }
}
