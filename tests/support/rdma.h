/* SPDX-License-Identifier: MIT */
/*
 * rdma.h - the guest's RDMA devices (tests/vm): what of them is in use, and things that happen to
 * them. As in harness.h nothing here returns an error.
 */
#ifndef RDMAD_TEST_RDMA_H
#define RDMAD_TEST_RDMA_H

#include <stdbool.h>

/* What the kernel counts, by `rdma resource show`. */
struct rdma_resources {
    unsigned pd, cq, qp, cm_id, mr, ctx;
};
struct rdma_resources rdma_resources(const char *device);
bool rdma_resources_equal(const struct rdma_resources *a, const struct rdma_resources *b);
/* Waits until they are as before; when says what they should come back after. */
void rdma_expect_resources(const char *device, const struct rdma_resources *before,
                           const char *when);

/* Runs a command line by the shell, within ms; it must end with 0. */
void shell(unsigned ms, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
