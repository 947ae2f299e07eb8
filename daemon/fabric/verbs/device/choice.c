/* SPDX-License-Identifier: MIT */
/*
 * choice.c - which device, port and GID, and why not the others.
 *
 * A GID's rank says how good a way to other machines it is: that of the listen address before all,
 * because the operator named it; RoCE v2 over v1, which does not leave its network segment;
 * routable over link-local; IPv4 over IPv6, so that machines with both choose alike. The best rank
 * wins, then the first in the order of device name, port and index: a choice can be repeated by
 * hand. A sentence is written for everything that was looked at, the winner included.
 */
#include "daemon/fabric/verbs/device/choice.h"
#include "daemon/base/address.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_MAX 255u
#define RANK_ANY 1
#define RANK_IPV4 10
#define RANK_ROUTABLE 100
#define RANK_ROCE_V2 1000
#define RANK_LISTEN 10000

/* ---- GIDs ---------------------------------------------------------------------------------- */

static bool is_ipv4(const struct device_gid *g) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(g->raw, mapped, sizeof(mapped)) == 0;
}

static bool is_routable(const struct device_gid *g) {
    if (is_ipv4(g))
        return !(g->raw[12] == 169 && g->raw[13] == 254) && g->raw[12] != 127;
    return !(g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80);
}

static bool is_roce(const struct device_gid *g) {
    return strncmp(g->type, "RoCE", 4) == 0;
}

static bool is_v2(const struct device_gid *g) {
    return strcmp(g->type, "RoCE v2") == 0;
}

static bool is_listen(const struct device_gid *g, const struct wish *w) {
    for (unsigned i = 0; i < w->listen.count; i++) {
        if (memcmp(g->raw, w->listen.raw[i], sizeof(g->raw)) == 0)
            return true;
    }
    return false;
}

/* What verbs.gid says: nothing, an index, an address, or what is neither. */
struct named_gid {
    enum { NAMED_NONE, NAMED_INDEX, NAMED_ADDRESS, NAMED_NONSENSE } how;
    unsigned index;
    uint8_t raw[16];
};

static struct named_gid named_gid(const char *text) {
    struct named_gid n = {.how = NAMED_NONE};
    if (!*text)
        return n;
    char *end;
    unsigned long index = strtoul(text, &end, 10);
    if (*end == '\0' && *text != '-' && index < 65536) {
        n.how = NAMED_INDEX;
        n.index = (unsigned)index;
        return n;
    }
    struct in6_addr address;
    n.how = address_parse(text, &address) ? NAMED_ADDRESS : NAMED_NONSENSE;
    if (n.how == NAMED_ADDRESS)
        memcpy(n.raw, &address, sizeof(n.raw));
    return n;
}

static bool is_named(const struct device_gid *g, const struct named_gid *n) {
    switch (n->how) {
    case NAMED_NONE:
        return true;
    case NAMED_INDEX:
        return g->index == n->index;
    case NAMED_ADDRESS:
        return memcmp(g->raw, n->raw, sizeof(g->raw)) == 0;
    case NAMED_NONSENSE:
        break;
    }
    return false;
}

static int rank_of(const struct device_gid *g, const struct wish *w) {
    int rank = RANK_ANY;
    if (!is_roce(
            g)) /* InfiniBand's and iWARP's reach all that there is: as good as the best RoCE */
        return rank + RANK_IPV4 + RANK_ROUTABLE + RANK_ROCE_V2;
    if (is_ipv4(g))
        rank += RANK_IPV4;
    if (is_routable(g))
        rank += RANK_ROUTABLE;
    if (is_v2(g))
        rank += RANK_ROCE_V2;
    if (is_listen(g, w))
        rank += RANK_LISTEN;
    return rank;
}

/* ---- ports --------------------------------------------------------------------------------- */

static bool is_active(const struct device_port *p) {
    return strcmp(p->state, "ACTIVE") == 0;
}

static void say_not_active(struct device_port *p) {
    bool ethernet = strcmp(p->link_layer, "InfiniBand") != 0;
    if (ethernet && *p->netdev)
        snprintf(p->why, sizeof(p->why),
                 "port %u is %s: \"ip link set %s up\", or check the cable and its other end",
                 p->number, p->state, p->netdev);
    else if (ethernet)
        snprintf(p->why, sizeof(p->why),
                 "port %u is %s: set its network device up, or check the cable and its other end",
                 p->number, p->state);
    else
        snprintf(p->why, sizeof(p->why), "port %u is %s: %s", p->number, p->state,
                 strcmp(p->state, "DOWN") == 0
                     ? "check the cable and its other end"
                     : "no subnet manager has set it up, start one (opensm)");
}

static void list_gids(const struct device_port *p, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < p->gid_count && used < size; i++) {
        const struct device_gid *g = &p->gids[i];
        int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "",
                         *g->address ? g->address : g->gid);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* Whether an address given to an interface would help, the settings allowing. */
static bool lacks_address(const struct device_port *p, const struct named_gid *named) {
    for (size_t i = 0; i < p->gid_count; i++) {
        if (is_named(&p->gids[i], named) && p->gids[i].unassigned)
            return true;
    }
    return p->gid_count == 0;
}

static void say_no_gid(struct device_port *p, const struct wish *w) {
    char there[96];
    struct named_gid named = named_gid(w->settings->gid);
    list_gids(p, there, sizeof(there));
    const char *netdev = *p->netdev ? p->netdev : "its network device";
    if (named.how == NAMED_NONSENSE)
        snprintf(p->why, sizeof(p->why),
                 "verbs.gid is \"%s\", which is neither an index nor an address", w->settings->gid);
    else if (lacks_address(p, &named))
        snprintf(p->why, sizeof(p->why),
                 "port %u has no usable GID: give %s an IP address (ip addr add ADDRESS/LENGTH dev "
                 "%s)",
                 p->number, netdev, *p->netdev ? p->netdev : "NETDEV");
    else
        snprintf(p->why, sizeof(p->why), "port %u has no GID \"%s\" (verbs.gid), it has %.60s",
                 p->number, w->settings->gid, there);
}

static struct device_gid *best_gid(struct device_port *p) {
    struct device_gid *best = NULL;
    for (size_t i = 0; i < p->gid_count; i++) {
        if (p->gids[i].usable && (!best || p->gids[i].rank > best->rank))
            best = &p->gids[i];
    }
    return best;
}

static void choose_port_gids(struct device_port *p, const struct wish *w) {
    struct named_gid named = named_gid(w->settings->gid);
    for (size_t i = 0; i < p->gid_count; i++) {
        struct device_gid *g = &p->gids[i];
        g->usable = is_named(g, &named) && g->index <= INDEX_MAX && !g->unassigned;
        g->rank = g->usable ? rank_of(g, w) : 0;
        if (g->index > INDEX_MAX)
            snprintf(g->why, sizeof(g->why), "verbs can name only the first %u", INDEX_MAX + 1);
        else if (g->unassigned)
            snprintf(g->why, sizeof(g->why), "no interface has this address: nothing can be sent");
        else if (!g->usable)
            snprintf(g->why, sizeof(g->why), "not what verbs.gid (\"%s\") names", w->settings->gid);
    }
    if (*p->why)
        return;
    if (w->settings->port && w->settings->port != p->number)
        snprintf(p->why, sizeof(p->why), "verbs.port names port %u", w->settings->port);
    else if (!is_active(p))
        say_not_active(p);
    else if (!best_gid(p))
        say_no_gid(p, w);
    else
        p->usable = true;
}

/* ---- devices ------------------------------------------------------------------------------- */

static void rule_on_device(struct device_view *d, const struct wish *w) {
    const struct verbs_settings *s = w->settings;
    const struct device_port *first = NULL;
    for (size_t i = 0; i < d->port_count; i++) {
        struct device_port *p = &d->ports[i];
        choose_port_gids(p, w);
        d->usable |= p->usable;
        if (!p->usable && (!first || p->number == s->port))
            first = p;
    }
    if (*d->why)
        d->usable = false;
    else if (*s->device && strcmp(s->device, d->name) != 0)
        snprintf(d->why, sizeof(d->why), "verbs.device names %s", s->device);
    else if (strcmp(d->transport, "iWARP") == 0 && !s->cm)
        snprintf(d->why, sizeof(d->why),
                 "iWARP connects by rdma_cm alone: set verbs.connect to \"cm\"");
    else if (s->port > d->port_count)
        snprintf(d->why, sizeof(d->why), "it has %zu port%s and verbs.port is %u", d->port_count,
                 d->port_count == 1 ? "" : "s", s->port);
    else if (!d->usable)
        snprintf(d->why, sizeof(d->why), "%s", first ? first->why : "it has no port");
    else
        return;
    d->usable = false;
}

static int by_name(const void *a, const void *b) {
    return strverscmp(((const struct device_view *)a)->name, ((const struct device_view *)b)->name);
}

/* ---- choosing, and what it means for the others -------------------------------------------- */

struct gid_choice {
    struct device_view *device;
    struct device_port *port;
    struct device_gid *gid;
};

static struct gid_choice choice_best(struct device_list *list) {
    struct gid_choice c = {0};
    for (size_t d = 0; d < list->count; d++) {
        struct device_view *view = &list->devices[d];
        for (size_t p = 0; p < view->port_count && view->usable; p++) {
            struct device_gid *g = view->ports[p].usable ? best_gid(&view->ports[p]) : NULL;
            if (g && (!c.gid || g->rank > c.gid->rank))
                c = (struct gid_choice){view, &view->ports[p], g};
        }
    }
    return c;
}

static void gid_describe(const struct device_gid *g, const struct wish *w, char *out, size_t size) {
    if (is_roce(g))
        snprintf(out, size, "%s, %s%s", g->type, is_routable(g) ? "routable" : "link-local",
                 is_listen(g, w) ? ", the listen address" : "");
    else
        snprintf(out, size, "the port's own");
}

/* Why a usable GID lost to another; what that other is called. */
static void say_lost(struct device_gid *g, const struct device_gid *to, const char *who,
                     const struct wish *w) {
    const char *what = "as good as %s, which comes first";
    if (is_listen(to, w) && !is_listen(g, w))
        what = "not the listen address, as %s is";
    else if (is_v2(to) && !is_v2(g))
        what = "RoCE v1, and v2 is better: %s";
    else if (is_routable(to) && !is_routable(g))
        what = "link-local, and %s is routable";
    else if (is_ipv4(to) && !is_ipv4(g))
        what = "IPv6, and so that all machines choose alike IPv4 goes first: %s";
    else if (g->rank < to->rank)
        what = "does not reach as far as %s";
    const char *hole = strstr(what, "%s");
    snprintf(g->why, sizeof(g->why), "%.*s%s%s", (int)(hole - what), what, who, hole + 2);
}

static void explain_gids(const struct device_view *view, struct device_port *p,
                         const struct gid_choice *c, const struct wish *w) {
    for (size_t i = 0; i < p->gid_count; i++) {
        struct device_gid *g = &p->gids[i];
        char who[96];
        if (c->gid && g == c->gid) {
            char how[64];
            gid_describe(g, w, how, sizeof(how));
            g->chosen = true;
            snprintf(g->why, sizeof(g->why), "chosen: %s%s", how,
                     *w->settings->gid ? ", named by verbs.gid" : "");
        } else if (g->usable && !p->usable) {
            snprintf(g->why, sizeof(g->why), "its port cannot be used");
        } else if (g->usable && !view->usable) {
            snprintf(g->why, sizeof(g->why), "its device cannot be used");
        } else if (g->usable && c->gid) {
            if (p == c->port)
                snprintf(who, sizeof(who), "index %u", c->gid->index);
            else
                snprintf(who, sizeof(who), "index %u of %s port %u", c->gid->index, c->device->name,
                         c->port->number);
            say_lost(g, c->gid, who, w);
        }
    }
}

static void explain_port(const struct device_view *view, struct device_port *p,
                         const struct gid_choice *c, const struct wish *w) {
    p->chosen = c->port && p == c->port;
    if (p->chosen)
        snprintf(p->why, sizeof(p->why), "chosen: %s",
                 w->settings->port ? "named by verbs.port" : "has the best GID");
    else if (p->usable && view->usable && c->port)
        snprintf(p->why, sizeof(p->why), "%s port %u is as good or better, see the GIDs",
                 c->device->name, c->port->number);
    else if (p->usable)
        snprintf(p->why, sizeof(p->why), "its device cannot be used");
    explain_gids(view, p, c, w);
}

static void choice_explain(struct device_list *list, const struct gid_choice *c,
                           const struct wish *w) {
    for (size_t d = 0; d < list->count; d++) {
        struct device_view *view = &list->devices[d];
        view->chosen = c->device && view == c->device;
        if (view->chosen)
            snprintf(view->why, sizeof(view->why), "chosen: %s",
                     *w->settings->device ? "named by verbs.device" : "has the best GID");
        else if (view->usable && c->device)
            snprintf(view->why, sizeof(view->why), "%s is as good or better, see the GIDs",
                     c->device->name);
        for (size_t i = 0; i < view->port_count; i++)
            explain_port(view, &view->ports[i], c, w);
    }
}

/* ---- nothing to choose --------------------------------------------------------------------- */

static void names_of(const struct device_list *list, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < list->count && used < size; i++) {
        int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "", list->devices[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
}

static void choice_say_none(struct device_list *list, const struct wish *w) {
    const char *wanted = w->settings->device;
    char all[RDMAD_TEXT_MAX];
    size_t used = 0;
    if (!list->count) {
        if (!list->why.code) /* the survey knows better what is missing */
            error_set(&list->why, RDMAD_E_FABRIC, "this machine has no RDMA device");
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(wanted, list->devices[i].name) == 0) {
            error_set(&list->why, RDMAD_E_FABRIC, "RDMA device %s cannot be used: %s", wanted,
                      list->devices[i].why);
            return;
        }
    }
    if (*wanted) {
        names_of(list, all, sizeof(all));
        error_set(&list->why, RDMAD_E_FABRIC,
                  "verbs.device is %s and this machine has no RDMA device of this name, it has %s",
                  wanted, all);
        return;
    }
    if (list->count == 1) {
        error_set(&list->why, RDMAD_E_FABRIC, "RDMA device %s cannot be used: %s",
                  list->devices[0].name, list->devices[0].why);
        return;
    }
    all[0] = '\0';
    for (size_t i = 0; i < list->count && used < sizeof(all); i++) {
        int n = snprintf(all + used, sizeof(all) - used, "%s%s: %s", i ? "; " : "",
                         list->devices[i].name, list->devices[i].why);
        used += n > 0 ? (size_t)n : 0;
    }
    error_set(&list->why, RDMAD_E_FABRIC, "none of %zu RDMA devices can be used: %s", list->count,
              all);
}

void devices_choose(struct device_list *list, const struct wish *w) {
    if (list->count)
        qsort(list->devices, list->count, sizeof(list->devices[0]), by_name);
    for (size_t i = 0; i < list->count; i++)
        rule_on_device(&list->devices[i], w);
    struct gid_choice c = choice_best(list);
    choice_explain(list, &c, w);
    list->chosen = c.device ? (int)(c.device - list->devices) : -1;
    if (!c.device)
        choice_say_none(list, w);
}

const struct device_port *devices_chosen_port(const struct device_list *list) {
    if (list->chosen < 0)
        return NULL;
    const struct device_view *view = &list->devices[list->chosen];
    for (size_t i = 0; i < view->port_count; i++) {
        if (view->ports[i].chosen)
            return &view->ports[i];
    }
    return NULL;
}

const struct device_gid *port_chosen_gid(const struct device_port *port) {
    for (size_t i = 0; port && i < port->gid_count; i++) {
        if (port->gids[i].chosen)
            return &port->gids[i];
    }
    return NULL;
}
