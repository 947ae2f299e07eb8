/* SPDX-License-Identifier: MIT */
/*
 * neighbour.c - whether the kernel knows the way to a GID's address.
 *
 * A QP on Ethernet is given its path by ibv_modify_qp, in which the kernel looks up the MAC address
 * of the other end, or of the router, and waits a second for it. A worker has no such second, least
 * of all for a peer that names an address nobody has. So the kernel is asked before (its route,
 * then its neighbour, as it will look them up itself); what it does not know yet it is made to look
 * for, by a datagram of no bytes to the discard port, and whoever wants the connection comes again.
 *
 * In RoCE v1, too, an address stands behind a GID, but in a link-local one, which tells the MAC
 * address itself.
 *
 * Whatever cannot be found out counts as known: then the kernel waits, as it always did.
 */
#include "daemon/fabric/verbs/instance/neighbour.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DISCARD_PORT 9
#define NUD_KNOWN (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

/* An address as netlink has it: an IPv4 one is the end of its GID. */
struct ip {
    uint8_t family;
    uint8_t size;
    const uint8_t *bytes;
};

struct netlink_request {
    struct nlmsghdr head;
    union {
        struct rtmsg route;
        struct ndmsg neighbour;
    } body;
    uint8_t attributes[64];
};

struct netlink_reply {
    _Alignas(struct nlmsghdr) uint8_t bytes[4096];
};

static struct ip ip_of(const uint8_t gid[16]) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (memcmp(gid, mapped, sizeof mapped) == 0)
        return (struct ip){AF_INET, 4, gid + 12};
    return (struct ip){AF_INET6, 16, gid};
}

static void netlink_add(struct netlink_request *r, unsigned short type, const void *data,
                        size_t n) {
    struct rtattr *a = (void *)((uint8_t *)r + NLMSG_ALIGN(r->head.nlmsg_len));
    a->rta_type = type;
    a->rta_len = (unsigned short)RTA_LENGTH(n);
    memcpy(RTA_DATA(a), data, n);
    r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + (uint32_t)RTA_ALIGN(a->rta_len);
}

/* Asks the kernel, which answers at once; NULL: no answer, errno says why. */
static const struct nlmsghdr *netlink_ask(int fd, const struct netlink_request *r,
                                          struct netlink_reply *out) {
    ssize_t n = send(fd, r, r->head.nlmsg_len, MSG_DONTWAIT);
    if (n >= 0)
        n = recv(fd, out->bytes, sizeof out->bytes, MSG_DONTWAIT);
    if (n < 0)
        return NULL;
    const struct nlmsghdr *head = (const void *)out->bytes;
    errno = EPROTO;
    if (!NLMSG_OK(head, (size_t)n))
        return NULL;
    if (head->nlmsg_type != NLMSG_ERROR)
        return head;
    if (head->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        errno = -((const struct nlmsgerr *)NLMSG_DATA(head))->error;
    return NULL;
}

/* The neighbour by which to goes: itself, or a router, whose address lies in route. False: there is
 * nobody to look for, or the kernel does not say. */
static bool next_hop(int fd, const struct ip *from, const struct ip *to, int ifindex,
                     struct netlink_reply *route, struct ip *hop) {
    struct netlink_request r = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof r.body.route),
                 .nlmsg_type = RTM_GETROUTE,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body.route = {.rtm_family = to->family,
                       .rtm_dst_len = (uint8_t)(8 * to->size),
                       .rtm_src_len = (uint8_t)(8 * from->size)},
    };
    netlink_add(&r, RTA_DST, to->bytes, to->size);
    netlink_add(&r, RTA_SRC, from->bytes, from->size);
    netlink_add(&r, RTA_OIF, &ifindex, sizeof ifindex);
    const struct nlmsghdr *head = netlink_ask(fd, &r, route);
    if (!head || head->nlmsg_type != RTM_NEWROUTE)
        return false;
    const struct rtmsg *m = NLMSG_DATA(head);
    if (m->rtm_type != RTN_UNICAST)
        return false;
    *hop = *to;
    const uint8_t *at = (const uint8_t *)RTM_RTA(m), *end = (const uint8_t *)head + head->nlmsg_len;
    while ((size_t)(end - at) >= sizeof(struct rtattr)) {
        const struct rtattr *a = (const void *)at;
        if (a->rta_len < sizeof *a || a->rta_len > (size_t)(end - at))
            break;
        if (a->rta_type == RTA_VIA) /* a router of the other family: leave it to the kernel */
            return false;
        if (a->rta_type == RTA_GATEWAY && RTA_PAYLOAD(a) >= to->size)
            hop->bytes = RTA_DATA(a);
        size_t step = RTA_ALIGN(a->rta_len);
        at += step < (size_t)(end - at) ? step : (size_t)(end - at);
    }
    return true;
}

static bool is_known(int fd, const struct ip *hop, int ifindex) {
    struct netlink_request r = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof r.body.neighbour),
                 .nlmsg_type = RTM_GETNEIGH,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body.neighbour = {.ndm_family = hop->family, .ndm_ifindex = ifindex},
    };
    struct netlink_reply reply;
    netlink_add(&r, NDA_DST, hop->bytes, hop->size);
    const struct nlmsghdr *head = netlink_ask(fd, &r, &reply);
    if (!head)
        return errno != ENOENT;
    const struct ndmsg *m = NLMSG_DATA(head);
    return head->nlmsg_type != RTM_NEWNEIGH || (m->ndm_state & NUD_KNOWN);
}

static void bind_and_send(int fd, const struct ip *from, const struct ip *to, int ifindex) {
    if (to->family == AF_INET) {
        struct sockaddr_in a = {.sin_family = AF_INET}, b = a;
        uint32_t index = htonl((uint32_t)ifindex);
        memcpy(&a.sin_addr, from->bytes, 4);
        memcpy(&b.sin_addr, to->bytes, 4);
        b.sin_port = htons(DISCARD_PORT);
        if (setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &index, sizeof index) == 0 &&
            bind(fd, (struct sockaddr *)&a, sizeof a) == 0)
            (void)sendto(fd, "", 0, MSG_DONTWAIT, (struct sockaddr *)&b, sizeof b);
        return;
    }
    struct sockaddr_in6 a = {.sin6_family = AF_INET6}, b = a;
    memcpy(&a.sin6_addr, from->bytes, 16);
    memcpy(&b.sin6_addr, to->bytes, 16);
    b.sin6_port = htons(DISCARD_PORT);
    b.sin6_scope_id = a.sin6_scope_id = (uint32_t)ifindex;
    if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0)
        (void)sendto(fd, "", 0, MSG_DONTWAIT, (struct sockaddr *)&b, sizeof b);
}

static void look_for(const struct ip *from, const struct ip *to, int ifindex) {
    int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    bind_and_send(fd, from, to, ifindex);
    close(fd);
}

static bool is_looked_up(const struct ibv_gid_entry *ours, const uint8_t gid[16]) {
    static const uint8_t prefix[8] = {0xfe, 0x80}; /* which is all that the kernel takes for one */
    bool link_local = memcmp(gid, prefix, sizeof prefix) == 0;
    return ours->ndev_ifindex != 0 && (ours->gid_type == IBV_GID_TYPE_ROCE_V2 ||
                                       (ours->gid_type == IBV_GID_TYPE_ROCE_V1 && !link_local));
}

bool neighbour_known(const struct verbs *v, const uint8_t gid[16]) {
    struct ibv_gid_entry ours;
    const struct device *d = v->device;
    if (d->link_layer != IBV_LINK_LAYER_ETHERNET ||
        ibv_query_gid_ex(d->context, d->port, v->port.gid_index, &ours, 0) ||
        !is_looked_up(&ours, gid))
        return true;
    int ifindex = (int)ours.ndev_ifindex;
    struct ip from = ip_of(ours.gid.raw), to = ip_of(gid), hop;
    if (from.family != to.family)
        return true;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return true;
    struct netlink_reply route;
    bool known = !next_hop(fd, &from, &to, ifindex, &route, &hop) || is_known(fd, &hop, ifindex);
    close(fd);
    if (!known)
        look_for(&from, &to, ifindex);
    return known;
}
