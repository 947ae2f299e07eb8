/* SPDX-License-Identifier: MIT */
/*
 * device_json.c - a survey of devices as device.show answers it, row by row.
 */
#include "daemon/ctl/device_json.h"

/* Names are the kernel's and the firmware's; what is not UTF-8 is shown as "?". */
static void put_text(json_t *o, const char *key, const char *value) {
    json_t *text = json_string(value);
    json_object_set_new(o, key, text ? text : json_string("?"));
}

static void put_number(json_t *o, const char *key, uint64_t n) {
    json_object_set_new(o, key, json_integer((json_int_t)n));
}

static void put_bool(json_t *o, const char *key, bool value) {
    json_object_set_new(o, key, json_boolean(value));
}

static json_t *gid_row(const struct device_gid *g) {
    json_t *o = json_object();
    put_number(o, "index", g->index);
    put_text(o, "gid", g->gid);
    put_text(o, "type", g->type);
    put_text(o, "address", g->address);
    put_text(o, "netdev", g->netdev);
    put_bool(o, "usable", g->usable);
    put_bool(o, "chosen", g->chosen);
    json_object_set_new(o, "rank", json_integer(g->rank));
    put_text(o, "why", g->why);
    return o;
}

static json_t *port_row(const struct device_port *p) {
    json_t *o = json_object(), *gids = json_array();
    put_number(o, "port", p->number);
    put_text(o, "state", p->state);
    put_text(o, "link_layer", p->link_layer);
    put_text(o, "netdev", p->netdev);
    put_text(o, "speed", p->speed);
    put_number(o, "mtu", p->mtu);
    put_number(o, "max_mtu", p->max_mtu);
    put_number(o, "lid", p->lid);
    put_number(o, "max_message_bytes", p->max_message);
    put_bool(o, "usable", p->usable);
    put_bool(o, "chosen", p->chosen);
    put_text(o, "why", p->why);
    for (size_t i = 0; i < p->gid_count; i++)
        json_array_append_new(gids, gid_row(&p->gids[i]));
    json_object_set_new(o, "gids", gids);
    return o;
}

static json_t *device_row(const struct device_view *d, bool verbose) {
    json_t *o = json_object(), *ports = json_array();
    put_text(o, "name", d->name);
    put_text(o, "transport", d->transport);
    put_text(o, "node_guid", d->node_guid);
    put_text(o, "firmware", d->firmware);
    put_text(o, "uverbs", d->uverbs);
    put_bool(o, "usable", d->usable);
    put_bool(o, "chosen", d->chosen);
    put_bool(o, "in_use", d->in_use);
    put_text(o, "why", d->why);
    put_text(o, "protection", d->windows);
    put_text(o, "self_test", d->self_test);
    put_text(o, "atomics", d->atomics);
    put_text(o, "services", d->services);
    for (size_t i = 0; i < d->port_count; i++)
        json_array_append_new(ports, port_row(&d->ports[i]));
    json_object_set_new(o, "ports", ports);
    if (verbose) {
        json_t *facts = json_object();
        for (size_t i = 0; i < d->fact_count; i++)
            put_text(facts, d->facts[i].name, d->facts[i].value);
        json_object_set_new(o, "facts", facts);
    }
    return o;
}

json_t *device_list_json(const struct device_list *list, bool verbose) {
    json_t *rows = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(rows, device_row(&list->devices[i], verbose));
    return rows;
}
