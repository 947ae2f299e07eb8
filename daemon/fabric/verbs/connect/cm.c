/* SPDX-License-Identifier: MIT */
/*
 * cm.c - what an instance has of rdma_cm: the event channel, where it listens, whom it awaits.
 *
 * All of it is made when the first link or offer needs it. Every call of the library here returns
 * at once: the channel does not block, and addresses are numbers.
 *
 * rdma_cm goes by IP addresses. On RoCE the GID in use is one; elsewhere the addresses of this
 * machine are tried until one turns out to belong to the device in use.
 */
#include "daemon/fabric/verbs/connect/cm.h"
#include "daemon/base/clock.h"
#include "daemon/base/upper_fd.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#define BACKLOG 64

static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

/* ---- addresses ----------------------------------------------------------------------------- */

static bool is_link_local(const uint8_t a[16]) {
    return a[0] == 0xfe && (a[1] & 0xc0) == 0x80;
}

/* rdma_cm wants IPv4 addresses as such. */
struct sockaddr_in6 cm_sockaddr(const uint8_t a[16], uint16_t port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (memcmp(a, v4_mapped, sizeof(v4_mapped)) == 0) {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&four.sin_addr, a + 12, 4);
        memcpy(&six, &four, sizeof(four));
    } else {
        memcpy(&six.sin6_addr, a, 16);
    }
    return six;
}

static void to_bytes(const struct sockaddr *from, uint8_t a[16]) {
    if (from->sa_family == AF_INET) {
        memcpy(a, v4_mapped, sizeof(v4_mapped));
        memcpy(a + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else {
        memcpy(a, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
    }
}

bool cm_is_ours(const struct cm *cm, const struct rdma_cm_id *id) {
    const struct device *d = cm->verbs->device;
    return id->verbs && id->port_num == d->port &&
           strcmp(ibv_get_device_name(id->verbs->device), d->name) == 0;
}

static bool leads_to_device(struct cm *cm, const struct sockaddr_in6 *address) {
    struct rdma_cm_id *id;
    struct sockaddr_in6 copy = *address;
    if (rdma_create_id(cm->channel, &id, NULL, RDMA_PS_TCP))
        return false;
    bool ours = rdma_bind_addr(id, (struct sockaddr *)&copy) == 0 && cm_is_ours(cm, id);
    rdma_destroy_id(id);
    return ours;
}

static bool cm_try_address(struct cm *cm, const struct ifaddrs *i, struct sockaddr_in6 *out) {
    uint8_t a[16];
    if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
        return false;
    to_bytes(i->ifa_addr, a);
    if (is_link_local(a))
        return false;
    *out = cm_sockaddr(a, 0);
    return leads_to_device(cm, out);
}

int cm_address(struct cm *cm, struct sockaddr_in6 *out, struct error *err) {
    const struct verbs *v = cm->verbs;
    struct ifaddrs *all = NULL;
    bool found = false;
    *out = cm_sockaddr(v->port.gid.raw, 0);
    if (v->device->link_layer == IBV_LINK_LAYER_ETHERNET && !v->device->iwarp &&
        !is_link_local(v->port.gid.raw) && leads_to_device(cm, out))
        return 0;
    if (getifaddrs(&all))
        return error_errno(err, RDMAD_E_SYSTEM, "the addresses of this machine cannot be listed");
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = cm_try_address(cm, i, out);
    freeifaddrs(all);
    if (found)
        return 0;
    return error_set(err, RDMAD_E_FABRIC,
                     "device %s port %u has no IP address, which rdma_cm goes by: give its network "
                     "interface one, or set verbs.connect to \"exchange\"",
                     v->device->name, v->device->port);
}

/* ---- the channel --------------------------------------------------------------------------- */

static int cm_channel_open(struct cm *cm, struct error *err) {
    struct epoll_event event = {.events = EPOLLIN};
    cm->channel = rdma_create_event_channel();
    if (!cm->channel)
        return error_errno(err, RDMAD_E_FABRIC,
                           "no rdma_cm here (load the module rdma_ucm, and see who may open "
                           "/dev/infiniband/rdma_cm)");
    cm->channel->fd = upper_fd(cm->channel->fd);
    int flags = fcntl(cm->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(cm->channel->fd, F_SETFL, flags | O_NONBLOCK) ||
        epoll_ctl(cm->verbs->epoll_fd, EPOLL_CTL_ADD, cm->channel->fd, &event))
        return error_errno(err, RDMAD_E_SYSTEM, "the events of rdma_cm cannot be watched");
    return 0;
}

void cm_free(struct verbs *v) {
    struct cm *cm = v->cm;
    assert(list_empty(&cm->calls));
    v->cm = NULL;
    for (struct list *pos; (pos = list_first(&cm->offers));)
        cm_offer_free(list_entry(pos, struct cm_offer, node));
    if (cm->listener)
        rdma_destroy_id(cm->listener);
    if (cm->channel) {
        epoll_ctl(v->epoll_fd, EPOLL_CTL_DEL, cm->channel->fd, NULL);
        rdma_destroy_event_channel(cm->channel);
    }
    free(cm);
}

int cm_of(struct verbs *v, struct cm **out, struct error *err) {
    if (!v->cm) {
        struct cm *cm = calloc(1, sizeof(*cm));
        if (!cm)
            return error_set(err, RDMAD_E_NOMEM, "no memory for connecting by rdma_cm");
        cm->verbs = v;
        list_init(&cm->offers);
        list_init(&cm->calls);
        v->cm = cm;
        int rc = cm_channel_open(cm, err);
        if (rc) {
            cm_free(v);
            return rc;
        }
    }
    *out = v->cm;
    return 0;
}

/* ---- offers -------------------------------------------------------------------------------- */

int cm_listen(struct cm *cm, struct error *err) {
    const struct verbs *v = cm->verbs;
    struct sockaddr_in6 at;
    uint16_t port = v->env->settings->data_port;
    int rc = cm_address(cm, &at, err);
    if (rc)
        return rc;
    at.sin6_port = htons(port); /* the same place in both kinds of address */
    if (rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP)) {
        cm->listener = NULL;
        return error_errno(err, RDMAD_E_FABRIC, "no rdma_cm id to listen with");
    }
    if (rdma_bind_addr(cm->listener, (struct sockaddr *)&at) ||
        rdma_listen(cm->listener, BACKLOG)) {
        rc = error_errno(err, RDMAD_E_FABRIC, "rdma_cm does not listen on port %u of device %s",
                         port, v->device->name);
        rdma_destroy_id(cm->listener);
        cm->listener = NULL;
        return rc;
    }
    cm->port = ntohs(rdma_get_src_port(cm->listener));
    to_bytes((struct sockaddr *)&at, cm->address);
    return 0;
}

struct cm_offer *cm_offer_new(struct cm *cm, struct vpeer *p, struct error *err) {
    struct verbs *v = cm->verbs;
    struct cm_offer *o = calloc(1, sizeof(*o));
    if (!o) {
        error_set(err, RDMAD_E_NOMEM, "no memory for an offer by rdma_cm");
        return NULL;
    }
    if (getrandom(o->token, sizeof(o->token), 0) != (ssize_t)sizeof(o->token)) {
        error_errno(err, RDMAD_E_SYSTEM, "no random bytes for an offer by rdma_cm");
        free(o);
        return NULL;
    }
    o->peer = p;
    o->number = target_number_new();
    o->expires_ns = clock_after(v->now_ns, v->env->settings->token_ttl_ns);
    p->holds++;
    p->offers++;
    list_append(&cm->offers, &o->node);
    verbs_timer_at(v, o->expires_ns);
    return o;
}

void cm_offer_free(struct cm_offer *o) {
    struct vpeer *p = o->peer;
    assert(p->offers > 0);
    list_remove(&o->node);
    explicit_bzero(o->token, sizeof(o->token));
    free(o);
    p->holds--;
    p->offers--;
    vpeer_check_free(p);
}

/* Every offer is compared with every byte, so time tells nothing about a token. */
struct cm_offer *cm_offer_find(struct cm *cm, const uint8_t token[VERBS_TOKEN_BYTES]) {
    struct cm_offer *found = NULL;
    list_for_each (pos, &cm->offers) {
        struct cm_offer *o = list_entry(pos, struct cm_offer, node);
        volatile uint8_t differs = 0;
        for (unsigned i = 0; i < VERBS_TOKEN_BYTES; i++)
            differs = (uint8_t)(differs | (o->token[i] ^ token[i]));
        if (!differs)
            found = o;
    }
    return found && cm->verbs->now_ns < found->expires_ns ? found : NULL;
}
