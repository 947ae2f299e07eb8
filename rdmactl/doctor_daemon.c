/* SPDX-License-Identifier: MIT */
/*
 * doctor_daemon.c - the daemon's sockets, settings and limits, as it tells them itself.
 */
#include "rdmactl/doctor.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

void check_runtime_dir(struct exam *e) {
    struct stat st;
    if (stat(cli.dir, &st)) {
        say(e, BAD, "%s: %s", cli.dir, strerror(errno));
        next(e, "start rdmad (systemctl start rdmad), or name its directory with -d");
    } else if (!S_ISDIR(st.st_mode)) {
        say(e, BAD, "%s is not a directory", cli.dir);
        next(e, "name the daemon's directory with -d");
    } else if (st.st_mode & S_IWOTH) {
        say(e, BAD, "%s is writable by everybody, who could put a socket of their own there",
            cli.dir);
        next(e, "chmod o-w %s", cli.dir);
    } else {
        say(e, GOOD, "%s, mode %04o", cli.dir, (unsigned)(st.st_mode & 07777));
    }
}

void check_control(struct exam *e) {
    char path[256];
    snprintf(path, sizeof(path), "%s/control.sock", cli.dir);
    if (e->status && e->answer_ms > 200) {
        say(e, WARNING, "status took %.0f ms", e->answer_ms);
        next(e, "look at the load of the machine, and at rdmactl top");
    } else if (e->status) {
        say(e, GOOD, "status answered in %.1f ms", e->answer_ms);
    } else if (!access(path, F_OK) && access(path, R_OK | W_OK)) {
        say(e, BAD, "%s may not be opened by uid %u", path, (unsigned)geteuid());
        next(e, "run as root, or as a member of the socket's group");
    } else {
        say(e, BAD, "%s", e->why.text);
        if (!strcmp(e->why.code, "RDMAD_E_TIMEOUT"))
            next(e,
                 "it runs and does not answer: restart it (systemctl restart rdmad), and keep its "
                 "log: journalctl -u rdmad");
        else
            next(e, "start rdmad, and read its log: journalctl -u rdmad");
    }
}

/* Who is turned away hears it at once. */
static bool turned_away(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 200) > 0;
}

static void say_who_may_connect(struct exam *e, const char *path, int fd) {
    const char *group = fact_text(e, "clients", "group"); /* "": everybody, or not known */
    if (e->status && !*group) {
        say(e, GOOD, "%s takes connections", path);
    } else if (turned_away(fd)) {
        say(e, BAD, "%s is for members of group %s, and uid %u is none", path,
            *group ? group : "socket_group", (unsigned)geteuid());
        next(e, "join the group, or change the setting socket_group");
    } else if (*group) {
        say(e, GOOD, "%s takes connections of members of group %s", path, group);
    } else {
        say(e, GOOD, "%s takes connections of uid %u", path, (unsigned)geteuid());
    }
}

void check_client_socket(struct exam *e) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = 1}; /* of connect, for a full backlog */
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/rdmad.sock", cli.dir);
    if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
        say(e, BAD, "the path of the runtime directory is too long");
        next(e, "use a runtime_dir of at most 79 characters");
        return;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        say_who_may_connect(e, address.sun_path, fd);
    } else if (errno == EACCES) {
        say(e, BAD, "%s may not be opened by uid %u", address.sun_path, (unsigned)geteuid());
        next(e, "join the group of the setting socket_group");
    } else {
        say(e, BAD, "%s: %s", address.sun_path, strerror(errno));
        next(e, "start rdmad, or its socket unit");
    }
    if (fd >= 0)
        close(fd);
}

void check_permission(struct exam *e) {
    json_int_t owner = json_integer_value(fact(e, "process", "uid"));
    if (geteuid() == 0 || geteuid() == (uid_t)owner)
        say(e, GOOD, "uid %u may read and change", (unsigned)geteuid());
    else
        say(e, NOTE, "uid %u may read; lease revoke and peer add are for root and uid %u",
            (unsigned)geteuid(), (unsigned)owner);
}

void check_version(struct exam *e) {
    const char *daemon = fact_text(e, "version", NULL);
    if (!strcmp(daemon, RDMAD_VERSION)) {
        say(e, GOOD, "daemon and rdmactl are both %s", daemon);
        return;
    }
    say(e, WARNING, "the daemon is %s, rdmactl is %s", daemon, RDMAD_VERSION);
    next(e, "restart the daemon after an upgrade");
}

/* The row of the device in use; NULL when none is. */
static const json_t *device_in_use(const struct exam *e) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(e->devices, "devices"), i, row) {
        if (json_is_true(json_object_get(row, "in_use")))
            return row;
    }
    return NULL;
}

static void check_device_in_use(struct exam *e) {
    const json_t *device = device_in_use(e);
    const char *name = json_string_value(json_object_get(device, "name"));
    const char *how = json_string_value(json_object_get(device, "protection"));
    const char *why = json_string_value(json_object_get(e->devices, "why"));
    if (device) {
        say(e, GOOD, "verbs, on %s; leases hold by %s", name, how && *how ? how : "(unknown)");
    } else if (!e->devices) {
        say(e, WARNING, "verbs, but its devices cannot be looked at: %s", e->no_device.text);
        next(e, "see rdmactl device show");
    } else {
        say(e, BAD,
            "verbs, but no device is in use now%s%s; transfers wait, and end by their "
            "deadline",
            why ? ": " : "", why ? why : "");
        next(e, "see rdmactl device show");
    }
}

void check_fabric(struct exam *e) {
    const char *name = fact_text(e, "fabric", "name");
    const char *why = fact_text(e, "fabric", "why");
    const char *asked = json_string_value(json_object_get(e->config, "fabric"));
    bool wanted = asked && !strcmp(asked, "tcp");
    struct names devices;
    if (uses_verbs(e)) {
        check_device_in_use(e);
    } else if (!wanted && names_in(e, "/sys/class/infiniband", &devices)) {
        say(e, WARNING, "%s is in use although this machine has RDMA devices: %s", name, why);
        next(e, "see the checks of devices below and rdmactl device show, then restart rdmad");
    } else {
        say(e, NOTE, "%s: RDMA over TCP: %s", name, why);
    }
}

/* Which of them go over less than the daemon has. */
void check_peers(struct exam *e) {
    const char *name = fact_text(e, "fabric", "name"), *other = fact_text(e, "fabric", "fallback");
    int fallen = (int)json_integer_value(fact(e, "fabric", "peers_fallen_back"));
    if (fallen) {
        say(e, WARNING, "%d connection%s over %s: the daemon at the other end offers no %s", fallen,
            fallen == 1 ? " goes" : "s go", other, name);
        next(e, "rdmactl peer show says which, with -j why; have them use RDMA, or refuse such "
                "peers with \"peer.fallback_tcp\": false");
    } else if (other) {
        say(e, GOOD, "all go over %s; one that has none would go over %s, and be in the log", name,
            other);
    } else {
        say(e, GOOD, "all go over %s", name);
    }
}

void check_retries(struct exam *e) {
    double timeout = setting(e, "verbs.timeout", 14), retries = setting(e, "verbs.retry_count", 6);
    double rnr = setting(e, "verbs.rnr_retry", 6);
    double lost_s = 4.096e-6 * exp2(timeout) * (retries + 1);
    char text[CELL_MAX];
    if (!uses_verbs(e)) {
        say(e, GOOD, "do not matter: data does not go over RDMA");
    } else if (!e->config) {
        say(e, SKIPPED, "the daemon does not tell its settings");
    } else if (retries >= 7 || rnr >= 7) {
        say(e, WARNING, "%s is 7, which %s without end: a peer that vanishes may never be noticed",
            retries >= 7 ? "verbs.retry_count" : "verbs.rnr_retry",
            retries >= 7 ? "some devices take for" : "is");
        next(e, "use at most 6");
    } else if (lost_s > 60) {
        say(e, WARNING, "a peer that vanishes is noticed after %s at the earliest",
            human_seconds(text, lost_s));
        next(e, "lower verbs.timeout or verbs.retry_count");
    } else {
        say(e, GOOD, "a peer that vanishes is noticed after %s or a few times that",
            human_seconds(text, lost_s));
    }
}

void check_listen(struct exam *e) {
    const char *host = fact_text(e, "listen", "host");
    int port = (int)json_integer_value(fact(e, "listen", "port"));
    if (json_is_false(fact(e, "listen", "reachable"))) {
        say(e, BAD, "no interface has the address of %s port %d: no peer can reach this daemon",
            host, port);
        next(e, "bring the interface up, or choose another address with --listen HOST:PORT");
        return;
    }
    if (!strncmp(host, "127.", 4) || !strcmp(host, "::1") || !strcmp(host, "localhost")) {
        say(e, NOTE, "%s port %d: only daemons of this machine can connect", host, port);
        next(e, "--listen HOST:PORT opens it to others");
        return;
    }
    say(e, WARNING,
        "%s port %d is reachable from outside, and daemons do not authenticate each other in this "
        "version",
        host, port);
    next(e, "trust the network, or filter the port");
}

void check_fds(struct exam *e) {
    const json_t *fds = fact(e, "limits", "fds");
    const json_t *sessions = fact(e, "limits", "sessions");
    double used = json_number_value(json_object_get(fds, "used"));
    double max = json_number_value(json_object_get(fds, "max"));
    double wanted = json_number_value(json_object_get(sessions, "max"));
    if (json_is_null(json_object_get(fds, "max"))) {
        say(e, GOOD, "%.0f descriptors open, no limit", used);
    } else if (used > 0.9 * max) {
        say(e, BAD, "%.0f of %.0f descriptors are open", used, max);
        next(e, "raise LimitNOFILE of the service");
    } else if (wanted > max) {
        say(e, WARNING, "up to %.0f sessions are allowed, but only %.0f descriptors", wanted, max);
        next(e, "raise LimitNOFILE of the service");
    } else {
        say(e, GOOD, "%.0f of %.0f descriptors are open", used, max);
    }
}

void check_limits(struct exam *e) {
    const char *key;
    json_t *limit;
    unsigned full = 0;
    json_object_foreach(json_object_get(e->status, "limits"), key, limit) {
        double used = json_number_value(json_object_get(limit, "used"));
        double max = json_number_value(json_object_get(limit, "max"));
        if (max > 0 && used > 0.9 * max && strcmp(key, "fds") != 0) {
            say(e, WARNING, "%s: %.0f of %.0f are in use; more will be refused", key, used, max);
            next(e, "see rdmactl session show for who has them, or raise limits.%s", key);
            full++;
        }
    }
    if (!full)
        say(e, GOOD, "no limit of the daemon is nearly used up");
}

void check_workers(struct exam *e) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    long workers = (long)json_integer_value(fact(e, "workers", NULL));
    if (workers >= cpus && workers > 1) {
        say(e, WARNING, "%ld workers on %ld CPUs leave none for the clients", workers, cpus);
        next(e, "lower the setting workers");
    } else {
        say(e, GOOD, "%ld workers on %ld CPUs", workers, cpus);
    }
}
