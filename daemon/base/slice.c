/* SPDX-License-Identifier: MIT */
/*
 * slice.c - sched_attr.sched_runtime of a thread of the normal class is its slice where the kernel
 * knows slices; it reads as 0 where it does not, and is not written then.
 */
#include "daemon/base/slice.h"
#include <linux/sched.h>
#include <linux/sched/types.h> /* and not sched.h: glibc before 2.41 does not go with it */
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 0: the kernel's own. */
static enum slice slice_set(uint64_t ns) {
    struct sched_attr attr = {.size = sizeof(attr)};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0))
        return SLICE_REFUSED;
    if (attr.sched_policy != SCHED_NORMAL || !attr.sched_runtime)
        return SLICE_UNKNOWN;
    attr.sched_runtime = ns;
    return syscall(SYS_sched_setattr, 0, &attr, 0) ? SLICE_REFUSED : SLICE_SHORT;
}

enum slice slice_shorten(void) {
    return slice_set(SLICE_SHORT_NS);
}

void slice_default(void) {
    (void)slice_set(0);
}
