/* SPDX-License-Identifier: MIT */
/*
 * doctor_rdma.c - RDMA devices as the kernel tells of them in /sys, /dev and /proc, without opening
 * any: it checks what the daemon needs before it can use one, and any user may run it.
 */
#include "rdmactl/doctor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEVICES "/sys/class/infiniband"
#define NODES "/sys/class/infiniband_verbs"
#define CAP_DAC_OVERRIDE 1
#define CAP_IPC_LOCK 14
#define GIDS_MAX 256

#define SOFT_ROCE "for Soft-RoCE: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev ETH"

/* What keeps RDMA from being used is bad where it is in use, else worth a warning. */
static enum level concern(const struct exam *e) {
    return exam_uses_verbs(e) ? BAD : WARNING;
}

void doctor_check_devices(struct exam *e) {
    struct exam_names devices;
    char list[512] = "", path[192], layer[32];
    if (!exam_names_in(e, DEVICES, &devices)) {
        exam_say(e, exam_uses_verbs(e) ? BAD : NOTE,
                 "this machine has no RDMA device (%s is empty)", DEVICES);
        exam_next(e, "load the driver of the NIC; " SOFT_ROCE);
        return;
    }
    for (unsigned i = 0; i < devices.count; i++) {
        size_t used = strlen(list);
        snprintf(path, sizeof(path), DEVICES "/%s/ports/1/link_layer", devices.name[i]);
        if (!exam_first_line(e, path, layer, sizeof(layer)))
            snprintf(layer, sizeof(layer), "?");
        snprintf(list + used, sizeof(list) - used, "%s%s (%s)", used ? ", " : "", devices.name[i],
                 layer);
    }
    exam_say(e, GOOD, "%s", list);
}

void doctor_check_modules(struct exam *e) {
    struct exam_names devices, nodes, soft;
    bool verbs =
        exam_names_in(e, NODES, &nodes) || exam_names_in(e, "/sys/module/ib_uverbs", &nodes);
    if (!exam_names_in(e, DEVICES, &devices)) {
        bool loaded = exam_names_in(e, "/sys/module/rdma_rxe", &soft);
        exam_say(e, NOTE, "no device needs one%s",
                 loaded ? "; rdma_rxe is loaded and has none" : "");
        if (loaded)
            exam_next(e, "rdma link add rxe0 type rxe netdev ETH");
    } else if (!verbs) {
        exam_say(e, concern(e), "ib_uverbs is not loaded, so no program can open a device");
        exam_next(e, "modprobe ib_uverbs");
    } else {
        exam_say(e, GOOD, "ib_uverbs is loaded");
    }
}

/* ---- who may open /dev/infiniband/uverbsN ---------------------------------------------------- */

static bool daemon_line(const struct exam *e, const char *file, const char *key, char *buf,
                        size_t size) {
    char path[64];
    json_int_t pid = json_integer_value(exam_fact(e, "process", "pid"));
    snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, file);
    return e->status && exam_line_with(e, path, key, buf, size);
}

static bool daemon_has_cap(const struct exam *e, unsigned cap) {
    char caps[32];
    return daemon_line(e, "status", "CapEff:", caps, sizeof(caps)) &&
           (strtoull(caps, NULL, 16) >> cap & 1);
}

/* Whether id is the n-th number of a line, or any when n is 0. */
static bool has_number(const char *line, unsigned n, unsigned long id) {
    char *end;
    for (unsigned i = 1;; i++, line = end) {
        unsigned long value = strtoul(line, &end, 10);
        if (end == line)
            return false;
        if (value == id && (!n || n == i))
            return true;
    }
}

static bool daemon_may_open(const struct exam *e, const struct stat *node) {
    char uids[96] = "", gids[96] = "", groups[1024] = "";
    mode_t need;
    daemon_line(e, "status", "Uid:", uids, sizeof(uids));
    daemon_line(e, "status", "Gid:", gids, sizeof(gids));
    daemon_line(e, "status", "Groups:", groups, sizeof(groups));
    if (has_number(uids, 2, node->st_uid)) /* the second number is the effective one */
        need = S_IRUSR | S_IWUSR;
    else if (has_number(gids, 2, node->st_gid) || has_number(groups, 0, node->st_gid))
        need = S_IRGRP | S_IWGRP;
    else
        need = S_IROTH | S_IWOTH;
    return (node->st_mode & need) == need || daemon_has_cap(e, CAP_DAC_OVERRIDE);
}

static void doctor_check_node(struct exam *e, const char *name, const char *device) {
    char path[512], word[96];
    struct stat node;
    snprintf(path, sizeof(path), "%s/dev/infiniband/%s", e->root, name);
    const char *shown = path + strlen(e->root);
    unsigned mode = stat(path, &node) ? 0 : (unsigned)node.st_mode & 0777;
    if (!mode) {
        exam_say(e, concern(e), "%s of %s is missing", shown, device);
        exam_next(e, "udevadm trigger; in a container, pass %s in", shown);
    } else if (daemon_line(e, "status", "Uid:", word, sizeof(word)) && !daemon_may_open(e, &node)) {
        exam_say(e, concern(e), "%s of %s has mode %04o: the daemon may not open it", shown, device,
                 mode);
        exam_next(e, "udev rule: KERNEL==\"uverbs*\", MODE=\"0660\", GROUP=\"rdmad\"");
    } else if (mode & S_IWOTH) {
        exam_say(e, WARNING,
                 "%s of %s has mode %04o: any user can use it, past the daemon's limits", shown,
                 device, mode);
        exam_next(e, "install rdmad's 91-rdmad.rules (KERNEL==\"uverbs*\", MODE=\"0660\", "
                     "GROUP=\"rdmad\"); then udevadm control --reload && udevadm trigger");
    } else {
        exam_say(e, GOOD, "%s of %s, mode %04o", shown, device, mode);
    }
}

void doctor_check_nodes(struct exam *e) {
    struct exam_names nodes;
    char path[192], device[64];
    unsigned seen = 0;
    exam_names_in(e, NODES, &nodes);
    for (unsigned i = 0; i < nodes.count; i++) {
        if (strncmp(nodes.name[i], "uverbs", 6) != 0)
            continue;
        snprintf(path, sizeof(path), NODES "/%s/ibdev", nodes.name[i]);
        if (!exam_first_line(e, path, device, sizeof(device)))
            snprintf(device, sizeof(device), "?");
        doctor_check_node(e, nodes.name[i], device);
        seen++;
    }
    if (!seen)
        exam_say(e, GOOD, "no device nodes that would let users pass the daemon by");
}

/* ---- ports and GIDs ---------------------------------------------------------------------------
 */

struct port {
    char device[64], name[16]; /* "mlx5_0", "1" */
    char state[32];            /* "ACTIVE" */
    char netdev[32];           /* "ETH" when none is known */
    bool active, ethernet;
};

/* A file of the port: its first line. */
static bool port_line(const struct exam *e, const struct port *p, const char *file, char *buf,
                      size_t size) {
    char path[256];
    snprintf(path, sizeof(path), DEVICES "/%s/ports/%s/%s", p->device, p->name, file);
    return exam_first_line(e, path, buf, size);
}

static void read_port(const struct exam *e, struct port *p) {
    char text[64];
    if (!port_line(e, p, "state", text, sizeof(text))) /* "4: ACTIVE" */
        snprintf(text, sizeof(text), "in an unknown state");
    const char *colon = strchr(text, ':');
    snprintf(p->state, sizeof(p->state), "%.31s",
             colon ? colon + 1 + strspn(colon + 1, " ") : text);
    p->active = !strcmp(p->state, "ACTIVE");
    p->ethernet = port_line(e, p, "link_layer", text, sizeof(text)) && !strcmp(text, "Ethernet");
    if (!port_line(e, p, "gid_attrs/ndevs/0", p->netdev, sizeof(p->netdev)))
        snprintf(p->netdev, sizeof(p->netdev), "ETH");
}

/* Calls each for every port of every device; returns how often it said yes. */
static unsigned ports(struct exam *e, bool (*each)(struct exam *e, const struct port *p)) {
    struct exam_names devices, numbers;
    unsigned yes = 0;
    exam_names_in(e, DEVICES, &devices);
    for (unsigned d = 0; d < devices.count; d++) {
        char path[192];
        snprintf(path, sizeof(path), DEVICES "/%s/ports", devices.name[d]);
        exam_names_in(e, path, &numbers);
        for (unsigned i = 0; i < numbers.count; i++) {
            struct port p = {0};
            snprintf(p.device, sizeof(p.device), "%s", devices.name[d]);
            snprintf(p.name, sizeof(p.name), "%.15s", numbers.name[i]);
            read_port(e, &p);
            yes += each(e, &p);
        }
    }
    return yes;
}

static bool port_is_up(struct exam *e, const struct port *p) {
    if (p->active) {
        exam_say(e, GOOD, "%s port %s is ACTIVE", p->device, p->name);
        return true;
    }
    exam_say(e, NOTE, "%s port %s is %s", p->device, p->name, p->state);
    if (p->ethernet)
        exam_next(e, "ip link set %s up, and look at the cable", p->netdev);
    else
        exam_next(e, "look at the cable, and whether a subnet manager runs");
    return false;
}

void doctor_check_ports(struct exam *e) {
    struct exam_names devices;
    if (!exam_names_in(e, DEVICES, &devices)) {
        exam_say(e, SKIPPED, "there is no RDMA device");
    } else if (!ports(e, port_is_up)) {
        exam_say(e, concern(e), "no port of any RDMA device is up");
        exam_next(
            e, "bring one up; the daemon takes it by itself when fabric is verbs, else restart it");
    }
}

struct gid_count {
    unsigned all, routable;
};

static void count_gids(const struct exam *e, const struct port *p, struct gid_count *out) {
    *out = (struct gid_count){0};
    for (unsigned i = 0; i < GIDS_MAX; i++) {
        char file[48], gid[48], type[32] = "";
        snprintf(file, sizeof(file), "gids/%u", i);
        if (!port_line(e, p, file, gid, sizeof(gid)))
            break;
        if (!strcmp(gid, "0000:0000:0000:0000:0000:0000:0000:0000"))
            continue;
        snprintf(file, sizeof(file), "gid_attrs/types/%u", i);
        port_line(e, p, file, type, sizeof(type));
        bool link_local = !strncmp(gid, "fe80:", 5);
        out->all++;
        out->routable += p->ethernet ? !link_local && !strcmp(type, "RoCE v2") : true;
    }
}

static bool port_has_gid(struct exam *e, const struct port *p) {
    struct gid_count n;
    if (!p->active)
        return false;
    count_gids(e, p, &n);
    if (n.routable) {
        exam_say(e, GOOD, "%s port %s has %u GIDs, %u of them routable", p->device, p->name, n.all,
                 n.routable);
        return true;
    }
    if (n.all)
        exam_say(e, WARNING,
                 "%s port %s has GIDs, but none is RoCE v2 with a routable address: it "
                 "reaches only its own network segment",
                 p->device, p->name);
    else
        exam_say(e, WARNING, "%s port %s is up and has no GID", p->device, p->name);
    exam_next(e, "ip addr add ADDRESS/LENGTH dev %s", p->netdev);
    return n.all != 0;
}

void doctor_check_gids(struct exam *e) {
    struct exam_names devices;
    if (!exam_names_in(e, DEVICES, &devices)) {
        exam_say(e, SKIPPED, "there is no RDMA device");
    } else if (!ports(e, port_has_gid)) {
        exam_say(e, concern(e), "no port that is up has a usable GID");
        exam_next(e, "see rdmactl device show for each GID and what is wrong with it");
    }
}

/* ---- pinning ----------------------------------------------------------------------------------
 */

/* What is over the limit cannot be registered; without devices it is merely not locked. */
static void say_too_little(struct exam *e, double limit, double pools) {
    char a[CELL_MAX], b[CELL_MAX], swap[96];
    cli_human_bytes(a, limit);
    cli_human_bytes(b, pools);
    if (exam_uses_verbs(e)) {
        exam_say(e, limit < 64 << 20 ? BAD : WARNING,
                 "the daemon may pin %s (RLIMIT_MEMLOCK), pools may take %s: larger ones will be "
                 "refused",
                 a, b);
    } else if (exam_line_with(e, "/proc/swaps", "/", swap, sizeof(swap))) {
        exam_say(
            e, WARNING,
            "the daemon may lock %s (RLIMIT_MEMLOCK), pools may take %s: the rest may be swapped "
            "out, and whoever shares a worker with it waits for the disk",
            a, b);
    } else {
        exam_say(e, GOOD, "the daemon may lock %s of the %s of pools, and there is no swap", a, b);
        return;
    }
    exam_next(e,
              "LimitMEMLOCK=infinity in the service, or CAP_IPC_LOCK, or lower limits.pool_bytes");
}

void doctor_check_memlock(struct exam *e) {
    char line[96], a[CELL_MAX];
    if (!daemon_line(e, "limits", "Max locked memory", line, sizeof(line))) {
        exam_say(e, SKIPPED, "the daemon's limits cannot be read from here");
        return;
    }
    double limit = strtod(line, NULL); /* the soft one stands first, in bytes */
    double pools = json_number_value(json_object_get(exam_fact(e, "limits", "pool_bytes"), "max"));
    if (daemon_has_cap(e, CAP_IPC_LOCK))
        exam_say(e, GOOD,
                 "the daemon has CAP_IPC_LOCK: it may pin as much as limits.pool_bytes allows");
    else if (!strncmp(line, "unlimited", 9))
        exam_say(e, GOOD, "the daemon may pin any amount");
    else if (limit < pools)
        say_too_little(e, limit, pools);
    else
        exam_say(e, GOOD, "the daemon may pin %s, which is enough", cli_human_bytes(a, limit));
}
