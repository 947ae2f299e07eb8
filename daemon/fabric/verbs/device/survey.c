/* SPDX-License-Identifier: MIT */
/*
 * survey.c - asks every RDMA device of the machine what it is, and has one chosen.
 *
 * Devices come from libibverbs; those that the kernel has and libibverbs does not show (ib_uverbs
 * or the userspace driver is missing) from sysfs, so that they are told of too. Each is opened,
 * asked and closed; one that cannot be opened is listed with the reason and the next step.
 */
#include "daemon/fabric/verbs/device/survey.h"
#include "daemon/base/address.h"
#include "daemon/fabric/verbs/device/facts.h"
#include "daemon/fabric/verbs/device/limits.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYS_DEVICES "/sys/class/infiniband"
#define SYS_UVERBS "/sys/class/infiniband_verbs"
#define DEV_DIR "/dev/infiniband"

static int survey_no_memory(struct error *err) {
    return error_set(err, RDMAD_E_NOMEM, "out of memory while looking at the RDMA devices");
}

void device_list_free(struct device_list *list) {
    if (!list)
        return;
    for (size_t d = 0; d < list->count; d++) {
        struct device_view *view = &list->devices[d];
        for (size_t p = 0; p < view->port_count; p++)
            free(view->ports[p].gids);
        free(view->ports);
        free(view->facts);
    }
    free(list->devices);
    free(list);
}

/* ---- the listen address -------------------------------------------------------------------- */

static bool leads_somewhere(const uint8_t raw[16]) {
    struct in6_addr a;
    memcpy(&a, raw, sizeof(a));
    if (IN6_IS_ADDR_V4MAPPED(&a))
        return raw[12] != 127 && memcmp(raw + 12, "\0\0\0", 4) != 0;
    return !IN6_IS_ADDR_UNSPECIFIED(&a) && !IN6_IS_ADDR_LOOPBACK(&a);
}

void survey_listen(const struct fabric_settings *settings, struct listen_gids *out) {
    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < settings->listen_count; i++)
        if (leads_somewhere(settings->listen_at[i]))
            memcpy(out->raw[out->count++], settings->listen_at[i], sizeof(out->raw[0]));
}

/* ---- a port -------------------------------------------------------------------------------- */

static void gid_text(const uint8_t raw[16], char *out, size_t size) {
    int used = 0;
    for (int i = 0; i < 16; i += 2)
        used += snprintf(out + used, size - (size_t)used, "%s%02x%02x", i ? ":" : "", raw[i],
                         raw[i + 1]);
}

static const char *gid_type_name(const struct ibv_gid_entry *e) {
    switch (e->gid_type) {
    case IBV_GID_TYPE_ROCE_V1:
        return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
        return "RoCE v2";
    default:
        return "IB";
    }
}

/* A port has a GID made of its own MAC whether or not an interface has that address; a v2 packet
 * with it finds no route. */
static bool is_assigned(const uint8_t gid[16], const struct ifaddrs *addresses) {
    uint8_t raw[16];
    for (const struct ifaddrs *a = addresses; a; a = a->ifa_next) {
        if (a->ifa_addr && address_of_sockaddr(a->ifa_addr, raw) && leads_somewhere(raw) &&
            memcmp(raw, gid, sizeof(raw)) == 0)
            return true;
    }
    return false;
}

static void fill_gid(struct device_gid *g, const struct ibv_gid_entry *e) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    g->index = e->gid_index;
    memcpy(g->raw, e->gid.raw, sizeof(g->raw));
    gid_text(g->raw, g->gid, sizeof(g->gid));
    snprintf(g->type, sizeof(g->type), "%s", gid_type_name(e));
    if (e->gid_type == IBV_GID_TYPE_IB)
        return;
    if (memcmp(g->raw, mapped, sizeof(mapped)) == 0)
        inet_ntop(AF_INET, g->raw + 12, g->address, sizeof(g->address));
    else
        inet_ntop(AF_INET6, g->raw, g->address, sizeof(g->address));
    char name[IF_NAMESIZE];
    if (e->ndev_ifindex && if_indextoname(e->ndev_ifindex, name))
        snprintf(g->netdev, sizeof(g->netdev), "%.15s", name);
}

static bool fill_gids(struct device_port *p, struct ibv_context *context,
                      const struct ibv_port_attr *attr, unsigned ports) {
    if (attr->gid_tbl_len <= 0)
        return true;
    size_t room = (size_t)attr->gid_tbl_len * ports; /* the table is of all ports */
    struct ibv_gid_entry *table = calloc(room, sizeof(*table));
    if (!table)
        return false;
    ssize_t n = ibv_query_gid_table(context, table, room, 0);
    p->gids = calloc(n > 0 ? (size_t)n : 1, sizeof(*p->gids));
    struct ifaddrs *addresses = NULL;
    bool known = getifaddrs(&addresses) == 0;
    for (ssize_t i = 0; i < n && p->gids; i++) {
        if (table[i].port_num != p->number)
            continue;
        struct device_gid *g = &p->gids[p->gid_count++];
        fill_gid(g, &table[i]);
        g->unassigned =
            known && table[i].gid_type == IBV_GID_TYPE_ROCE_V2 && !is_assigned(g->raw, addresses);
    }
    if (known)
        freeifaddrs(addresses);
    free(table);
    return p->gids != NULL;
}

/* One line of a sysfs file; "" if there is none. */
static void sysfs_read(const char *path, char *out, int size) {
    out[0] = '\0';
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    if (fgets(out, size, f))
        out[strcspn(out, "\n")] = '\0';
    else
        out[0] = '\0';
    fclose(f);
}

static void fill_netdev(struct device_port *p, const char *ibdev_path) {
    char path[IBV_SYSFS_PATH_MAX + 64];
    for (size_t i = 0; i < p->gid_count && !*p->netdev; i++)
        snprintf(p->netdev, sizeof(p->netdev), "%s", p->gids[i].netdev);
    if (*p->netdev)
        return;
    snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/ndevs/0", ibdev_path, p->number);
    sysfs_read(path, p->netdev, sizeof(p->netdev));
    if (*p->netdev)
        return;
    snprintf(path, sizeof(path), "%s/parent", ibdev_path); /* of software devices */
    sysfs_read(path, p->netdev, sizeof(p->netdev));
}

/* ports: that the device has. */
static bool fill_port(struct device_view *view, struct device_port *p, struct ibv_context *context,
                      unsigned ports, const struct verbs_settings *s) {
    struct ibv_port_attr attr;
    int failed = ibv_query_port(context, (uint8_t)p->number, &attr);
    if (failed) {
        snprintf(p->why, sizeof(p->why), "port %u does not answer: %s", p->number,
                 strerror(failed));
        return true;
    }
    snprintf(p->state, sizeof(p->state), "%s", port_state_name(attr.state));
    snprintf(p->link_layer, sizeof(p->link_layer), "%s",
             attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
    port_speed_text(&attr, p->speed, sizeof(p->speed));
    p->mtu = mtu_bytes(attr.active_mtu);
    p->max_mtu = mtu_bytes(attr.max_mtu);
    p->lid = attr.lid;
    p->max_message = attr.max_msg_sz;
    if (s->pkey_index >= attr.pkey_tbl_len && strcmp(view->transport, "iWARP") != 0)
        snprintf(p->why, sizeof(p->why), "verbs.pkey_index is %u and port %u has %u P_Keys",
                 s->pkey_index, p->number, attr.pkey_tbl_len);
    if (!facts_of_port(view, p->number, &attr) || !fill_gids(p, context, &attr, ports))
        return false;
    fill_netdev(p, context->device->ibdev_path);
    return true;
}

/* ---- a device ------------------------------------------------------------------------------ */

static const char *transport_name(enum ibv_transport_type type) {
    switch (type) {
    case IBV_TRANSPORT_IB:
        return "InfiniBand";
    case IBV_TRANSPORT_IWARP:
        return "iWARP";
    case IBV_TRANSPORT_USNIC:
        return "usNIC";
    case IBV_TRANSPORT_USNIC_UDP:
        return "usNIC UDP";
    default:
        return "unspecified";
    }
}

static void fill_identity(struct device_view *view, const struct ibv_device *device) {
    snprintf(view->name, sizeof(view->name), "%s", device->name);
    snprintf(view->transport, sizeof(view->transport), "%s",
             transport_name(device->transport_type));
    snprintf(view->uverbs, sizeof(view->uverbs), DEV_DIR "/%.15s", device->dev_name);
    if (device->transport_type != IBV_TRANSPORT_IB && device->transport_type != IBV_TRANSPORT_IWARP)
        snprintf(view->why, sizeof(view->why), "its transport is %s, it has no RDMA connections",
                 view->transport);
}

static void say_missing(struct device_view *view) {
    snprintf(view->why, sizeof(view->why),
             "%s is missing: let udev make it, or this container have " DEV_DIR, view->uverbs);
}

/* libibverbs' errno is of the last of several ways it tried, so the file is asked. */
static void say_cannot_open(struct device_view *view, int error) {
    struct stat st;
    if (stat(view->uverbs, &st) < 0 && errno == ENOENT)
        say_missing(view);
    else if (faccessat(AT_FDCWD, view->uverbs, R_OK | W_OK, AT_EACCESS) < 0)
        snprintf(view->why, sizeof(view->why),
                 "no permission on %s (mode %04o, owner %u:%u; we are uid %u gid %u): join its "
                 "group or open it by a udev rule",
                 view->uverbs, (unsigned)st.st_mode & 07777, (unsigned)st.st_uid,
                 (unsigned)st.st_gid, (unsigned)geteuid(), (unsigned)getegid());
    else
        snprintf(view->why, sizeof(view->why), "%s cannot be opened: %s", view->uverbs,
                 strerror(error));
}

/* From an open device; false: no memory. only: this port, 0 for all. */
static bool fill_open(struct device_view *view, struct ibv_context *context, unsigned only,
                      const struct verbs_settings *s) {
    struct ibv_device_attr_ex attr;
    memset(&attr, 0, sizeof(attr));
    int failed = ibv_query_device_ex(context, NULL, &attr);
    if (failed) {
        snprintf(view->why, sizeof(view->why), "it does not answer: %s", strerror(failed));
        return true;
    }
    const struct ibv_device_attr *a = &attr.orig_attr;
    const uint8_t *guid = (const uint8_t *)&a->node_guid;
    snprintf(view->node_guid, sizeof(view->node_guid), "%02x%02x:%02x%02x:%02x%02x:%02x%02x",
             guid[0], guid[1], guid[2], guid[3], guid[4], guid[5], guid[6], guid[7]);
    snprintf(view->firmware, sizeof(view->firmware), "%.63s", a->fw_ver);
    if (!*view->why)
        limits_suffice(a, s, view->why);
    view->ports = calloc(a->phys_port_cnt ? a->phys_port_cnt : 1, sizeof(*view->ports));
    if (!view->ports || !facts_of_device(view, context, &attr))
        return false;
    for (unsigned n = 1; n <= a->phys_port_cnt; n++) {
        if (only && n != only)
            continue;
        struct device_port *p = &view->ports[view->port_count++];
        p->number = n;
        if (!fill_port(view, p, context, a->phys_port_cnt, s))
            return false;
    }
    return true;
}

static bool fill_device(struct device_view *view, struct ibv_device *device,
                        const struct verbs_settings *s) {
    fill_identity(view, device);
    struct ibv_context *context = ibv_open_device(device);
    if (!context) {
        say_cannot_open(view, errno);
        return true;
    }
    bool ok = fill_open(view, context, 0, s);
    ibv_close_device(context);
    return ok;
}

/* ---- all of them --------------------------------------------------------------------------- */

static struct device_view *next_view(struct device_list *list) {
    if (list->count % 16 == 0) {
        struct device_view *more =
            realloc(list->devices, (list->count + 16) * sizeof(*list->devices));
        if (!more)
            return NULL;
        list->devices = more;
    }
    struct device_view *view = &list->devices[list->count++];
    memset(view, 0, sizeof(*view));
    return view;
}

static bool add_verbs_devices(struct device_list *list, const struct verbs_settings *s) {
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    bool ok = true;
    for (int i = 0; devices && i < count && ok; i++) {
        struct device_view *view = next_view(list);
        ok = view && fill_device(view, devices[i], s);
    }
    if (devices)
        ibv_free_device_list(devices);
    return ok;
}

static bool devices_have(const struct device_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->devices[i].name, name) == 0)
            return true;
    }
    return false;
}

/* The uverbs device that the kernel made for it; "" if none. */
static void uverbs_of(const char *name, char *out, size_t size) {
    out[0] = '\0';
    DIR *dir = opendir(SYS_UVERBS);
    for (struct dirent *e; dir && !*out && (e = readdir(dir));) {
        char path[sizeof(SYS_UVERBS) + sizeof(e->d_name) + 8], ibdev[64];
        snprintf(path, sizeof(path), SYS_UVERBS "/%s/ibdev", e->d_name);
        sysfs_read(path, ibdev, sizeof(ibdev));
        if (strcmp(ibdev, name) == 0)
            snprintf(out, size, DEV_DIR "/%.15s", e->d_name);
    }
    if (dir)
        closedir(dir);
}

static void fill_hidden(struct device_view *view, const char *name) {
    snprintf(view->name, sizeof(view->name), "%.63s", name);
    uverbs_of(view->name, view->uverbs, sizeof(view->uverbs));
    if (!*view->uverbs)
        snprintf(view->why, sizeof(view->why),
                 "the kernel module ib_uverbs is missing: modprobe ib_uverbs");
    else if (access(view->uverbs, F_OK) < 0)
        say_missing(view);
    else
        snprintf(view->why, sizeof(view->why),
                 "libibverbs has no driver for it: install ibverbs-providers");
}

static bool add_hidden_devices(struct device_list *list) {
    DIR *dir = opendir(SYS_DEVICES);
    bool ok = true;
    for (struct dirent *e; dir && ok && (e = readdir(dir));) {
        if (e->d_name[0] == '.' || devices_have(list, e->d_name))
            continue;
        struct device_view *view = next_view(list);
        ok = view != NULL;
        if (view)
            fill_hidden(view, e->d_name);
    }
    if (dir)
        closedir(dir);
    return ok;
}

static void say_no_device(struct error *why) {
    error_set(why, RDMAD_E_FABRIC,
              "this machine has no RDMA device (" SYS_DEVICES " is %s): load the driver of its "
              "NIC, or make a Soft-RoCE device: modprobe rdma_rxe; rdma link add rxe0 type rxe "
              "netdev NETDEV",
              access(SYS_DEVICES, F_OK) == 0 ? "empty" : "missing");
}

int survey_all(const struct wish *wish, struct device_list **out, struct error *err) {
    struct device_list *list = calloc(1, sizeof(*list));
    if (!list)
        return survey_no_memory(err);
    if (!add_verbs_devices(list, wish->settings) || !add_hidden_devices(list)) {
        device_list_free(list);
        return survey_no_memory(err);
    }
    if (!list->count)
        say_no_device(&list->why);
    devices_choose(list, wish);
    *out = list;
    return 0;
}

int survey_open_port(struct ibv_context *context, unsigned port, const struct wish *wish,
                     struct device_list **out, struct error *err) {
    struct device_list *list = calloc(1, sizeof(*list));
    struct device_view *view = list ? next_view(list) : NULL;
    if (!view) {
        device_list_free(list);
        return survey_no_memory(err);
    }
    fill_identity(view, context->device);
    if (!fill_open(view, context, port, wish->settings)) {
        device_list_free(list);
        return survey_no_memory(err);
    }
    devices_choose(list, wish);
    *out = list;
    return 0;
}
