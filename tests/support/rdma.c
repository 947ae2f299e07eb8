/* SPDX-License-Identifier: MIT */
/*
 * rdma.c - asks and disturbs by rdma, ip and tc, as an operator would. See rdma.h.
 */
#include "tests/support/rdma.h"

#include "tests/support/harness.h"

#include <stdarg.h>
#include <string.h>

static unsigned number(const json_t *device, const char *key) {
    const json_t *value = json_object_get(device, key);
    return (unsigned)json_integer_value(value); /* 0 when the kernel counts none of it */
}

struct rdma_resources rdma_resources(const char *device) {
    char out[4096];
    const char *const argv[] = {"/usr/bin/rdma", "-j", "resource", "show", device, NULL};
    int code = run_program(argv, out, sizeof(out));
    CHECK(code == 0, "rdma resource show %s: exit code %d: %s", device, code, out);
    json_t *list = json_loads(out, 0, NULL), *d = json_array_get(list, 0);
    CHECK(json_is_object(d), "rdma resource show %s says %s", device, out);
    struct rdma_resources r = {
        .pd = number(d, "pd"),
        .cq = number(d, "cq"),
        .qp = number(d, "qp"),
        .cm_id = number(d, "cm_id"),
        .mr = number(d, "mr"),
        .ctx = number(d, "ctx"),
    };
    json_decref(list);
    return r;
}

bool rdma_resources_equal(const struct rdma_resources *a, const struct rdma_resources *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

void rdma_expect_resources(const char *device, const struct rdma_resources *before,
                           const char *when) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    for (;;) {
        struct rdma_resources now = rdma_resources(device);
        if (rdma_resources_equal(&now, before))
            return;
        CHECK(now_ms() < deadline,
              "%s after %s: was pd %u cq %u qp %u cm_id %u mr %u ctx %u, is pd %u cq %u qp %u "
              "cm_id %u mr %u ctx %u",
              device, when, before->pd, before->cq, before->qp, before->cm_id, before->mr,
              before->ctx, now.pd, now.cq, now.qp, now.cm_id, now.mr, now.ctx);
        sleep_ms(20);
    }
}

void shell(unsigned ms, const char *format, ...) {
    char command[512], limit[32], out[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    CHECK(n > 0 && (size_t)n < sizeof(command), "command too long");
    snprintf(limit, sizeof(limit), "%u.%03u", ms / 1000, ms % 1000);
    const char *const argv[] = {"/usr/bin/timeout", limit, "/bin/sh", "-ec", command, NULL};
    int code = run_program(argv, out, sizeof(out));
    CHECK(code != 124, "%s: still running after %u ms", command, ms);
    CHECK(code == 0, "%s: exit code %d: %s", command, code, out);
}
