/* SPDX-License-Identifier: MIT */
/*
 * choice.c - the settings fabric, require_rdma and peer.fallback_tcp, and what the devices of this
 * machine can do.
 *
 * "auto" is verbs where a device, a port and a GID can be used, else tcp with the reason; "verbs"
 * or require_rdma is verbs or a refusal. With verbs, peers that have none are offered tcp, unless
 * the settings forbid it.
 */
#include "daemon/choice.h"
#include "daemon/base/log.h"
#include "daemon/fabric/device.h"
#include <stdio.h>
#include <string.h>

static const struct device_port *choice_port(const struct device_view *d) {
    for (size_t i = 0; i < d->port_count; i++)
        if (d->ports[i].chosen)
            return &d->ports[i];
    return NULL;
}

static const struct device_gid *choice_gid(const struct device_port *p) {
    for (size_t i = 0; p && i < p->gid_count; i++)
        if (p->gids[i].chosen)
            return &p->gids[i];
    return NULL;
}

/* "started on rxe0 port 1, GID 1 (10.77.0.1, RoCE v2)"; another may take its place later. */
static void choice_describe(const struct device_view *d, struct error *why) {
    const struct device_port *p = choice_port(d);
    const struct device_gid *g = choice_gid(p);
    char port[24] = "", gid[96] = "";
    if (p)
        snprintf(port, sizeof(port), " port %u", p->number);
    if (g)
        snprintf(gid, sizeof(gid), ", GID %u (%s, %s)", g->index, *g->address ? g->address : g->gid,
                 g->type);
    error_set(why, RDMAD_OK, "started on %s%s%s", d->name, port, gid);
}

/* Whether verbs can be used; why tells by what, or why not. */
static bool choice_survey(const struct fabric_settings *settings, struct error *why) {
    struct device_list *list = NULL;
    if (devices_survey(settings, NULL, &list, why))
        return false;
    bool found = list->chosen >= 0 && (size_t)list->chosen < list->count;
    if (found)
        choice_describe(&list->devices[list->chosen], why);
    else
        *why = list->why;
    device_list_free(list);
    return found;
}

static void choice_use_tcp(struct fabric_choice *c) {
    c->fabrics[0] = &fabric_tcp;
    c->fabrics[1] = NULL;
    c->alone = c->why;
}

static void choice_use_verbs(const struct config *config, struct fabric_choice *c) {
    c->fabrics[0] = &fabric_verbs;
    c->fabrics[1] = NULL;
    if (config->require_rdma)
        error_set(&c->alone, RDMAD_OK, "require_rdma is true");
    else if (!config->peer_fallback_tcp)
        error_set(&c->alone, RDMAD_OK, "peer.fallback_tcp is false");
    else
        c->fabrics[1] = &fabric_tcp;
}

int choice_make(const struct config *config, const struct fabric_settings *settings,
                struct fabric_choice *out, struct error *err) {
    *out = (struct fabric_choice){.must = false};
    if (!strcmp(config->fabric, "tcp")) {
        error_set(&out->why, RDMAD_OK, "the setting fabric is \"tcp\"");
        choice_use_tcp(out);
        return RDMAD_OK;
    }
    bool asked = !strcmp(config->fabric, "verbs");
    out->must = asked || config->require_rdma;
    if (choice_survey(settings, &out->why)) {
        choice_use_verbs(config, out);
        return RDMAD_OK;
    }
    if (out->must)
        return error_set(err, RDMAD_E_FABRIC, "%s: %s",
                         asked ? "fabric \"verbs\"" : "RDMA is required", out->why.text);
    choice_use_tcp(out);
    return RDMAD_OK;
}

bool choice_next_best(struct fabric_choice *c, const struct error *failure) {
    if (c->must || c->fabrics[0] != &fabric_verbs)
        return false;
    error_set(&c->why, failure->code, "verbs could not be started: %s", failure->text);
    choice_use_tcp(c);
    return true;
}

void choice_warn(const struct fabric_choice *c, const struct config *config) {
    if (c->fabrics[0] != &fabric_verbs)
        return;
    if (config->verbs_retry_count == 7)
        LOG(WARNING,
            ("verbs.retry_count is 7, which some devices take for without end: a peer that "
             "vanishes may never be noticed; use at most 6"));
    if (config->verbs_rnr_retry == 7)
        LOG(WARNING, ("verbs.rnr_retry is 7, without end: a peer that is never ready holds up its "
                      "link for ever; use at most 6"));
}
