/* SPDX-License-Identifier: MIT */
/*
 * rows.c - see rows.h.
 */
#include "daemon/ctl/rows.h"
#include "daemon/plane/plane.h"

void rows_share(const struct state *st, struct user_id who, json_t *row) {
    struct plane_user_stats user;
    plane_user_stats(st->plane, who, &user);
    json_object_set_new(row, "weight", json_integer(user.share.weight));
    json_object_set_new(row, "priority", json_integer(user.share.priority));
    json_object_set_new(row, "bytes_per_second",
                        json_integer((json_int_t)user.share.bytes_per_second));
    json_object_set_new(row, "ops_per_second", json_integer((json_int_t)user.share.ops_per_second));
    json_object_set_new(row, "throttled_s", json_real(rows_seconds(user.throttled_ns)));
}
