/* SPDX-License-Identifier: MIT */
/*
 * tally_json.c - see tally_json.h.
 */
#include "daemon/ctl/tally_json.h"
#include "common/errors.h"

static json_t *microseconds(uint64_t ns) {
    return json_real((double)ns / 1e3);
}

json_t *tally_spans(const struct histogram *h) {
    uint64_t count = histogram_count(h);
    if (!count)
        return json_null();
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)count, "mean",
        microseconds(h->sum_ns / count), "p50", microseconds(histogram_share_ns(h, 500)), "p99",
        microseconds(histogram_share_ns(h, 990)), "p999", microseconds(histogram_share_ns(h, 999)));
}

json_t *tally_buckets(const struct histogram *h, size_t *told) {
    if (*told >= TALLY_BUCKETS_MAX)
        return json_null();
    json_t *list = json_array();
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (h->bucket[i])
            json_array_append_new(list, json_pack("{s:o, s:I}", "us",
                                                  microseconds(histogram_middle_ns(i)), "count",
                                                  (json_int_t)h->bucket[i]));
    *told += json_array_size(list);
    return list;
}

json_t *tally_failures(const uint64_t failed[PLANE_CODES]) {
    json_t *o = json_object();
    tally_failures_add(o, failed);
    return o;
}

void tally_failures_add(json_t *to, const uint64_t failed[PLANE_CODES]) {
    for (unsigned code = 0; code < PLANE_CODES; code++) {
        const char *name = rdmad_error_name(-(int)code);
        json_int_t sum = json_integer_value(json_object_get(to, name)) + (json_int_t)failed[code];
        if (failed[code])
            json_object_set_new(to, name, json_integer(sum));
    }
}

const char *tally_op_name(unsigned opcode) {
    static const char *const names[RDMAD_OP_COUNT] = {
        [RDMAD_OP_READ] = "read", [RDMAD_OP_WRITE] = "write",   [RDMAD_OP_CAS] = "cas",
        [RDMAD_OP_FADD] = "fadd", [RDMAD_OP_NOTIFY] = "notify", [RDMAD_OP_SEND] = "send",
    };
    return opcode < RDMAD_OP_COUNT ? names[opcode] : NULL;
}

const char *tally_route_name(enum plane_route route) {
    return route == PLANE_LOCAL ? "local" : "link";
}

json_t *tally_kinds(const struct plane *plane) {
    json_t *list = json_array();
    for (unsigned op = 0; op < RDMAD_OP_COUNT; op++) {
        for (enum plane_route route = 0; tally_op_name(op) && route < PLANE_ROUTES; route++) {
            struct histogram h;
            plane_latency(plane, (uint8_t)op, route, &h);
            if (histogram_count(&h))
                json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "op", tally_op_name(op),
                                                      "route", tally_route_name(route), "lat_us",
                                                      tally_spans(&h)));
        }
    }
    return list;
}
