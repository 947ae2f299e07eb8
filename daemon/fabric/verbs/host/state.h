/* SPDX-License-Identifier: MIT */
/*
 * state.h - the inside of a fabric_host, for the files of host/ alone.
 *
 * Who may touch what. Fields under "lock" need the lock, on every thread. It is held for a few
 * lines and never across a verb, and given back in the function that took it. Fields of the device
 * thread are touched by it alone, except by host_open before it starts and host_close after it has
 * ended. An open_device is made and closed by the device thread; others may look into it while they
 * hold it: members from device_came to host_let_go, memory.c by its users count.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_STATE_H
#define RDMAD_FABRIC_VERBS_HOST_STATE_H

#include "daemon/base/list.h"
#include "daemon/base/offload.h"
#include "daemon/fabric/verbs/device/choice.h"
#include "daemon/fabric/verbs/device/open.h"
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

/*
 * The device in use (in_use.c):
 *
 *     USE_NONE --in_use_adopt--> USE_NOW --in_use_lose--> USE_ENDING
 *        ^                                                    |
 *        +---- in_use_finish: the last member has let go -----+
 */
enum host_use { USE_NONE, USE_NOW, USE_ENDING };

struct fabric_host {
    struct wish wish;
    struct offload *registrar, *revoker;
    int wake_fd; /* of the device thread; anybody writes to it */

    pthread_mutex_t lock;
    pthread_cond_t memory_idle; /* a memory is busy no more */
    /* Under lock. */
    struct list members, memories;
    struct open_device *now; /* which members get; NULL: none */
    struct port_now port;    /* of now */
    struct error why;        /* why there is none */
    bool stopping;
    const struct device *failed; /* the device that failed, until the device thread has seen it */
    struct error failed_why;

    /* The device thread's. */
    pthread_t thread;
    int inotify_fd, watch_dev, watch_dir;
    enum host_use use;
    struct open_device *open; /* unless USE_NONE */
    uint64_t ending_since_ns;
    uint64_t retry_ns, retry_after_ns; /* while there is none: when to look again */
    uint64_t look_ns;                  /* at the port, once more */
    unsigned failures;                 /* devices that broke soon after they were adopted */
    unsigned told;                     /* of device_open */
    struct error looked, said; /* why there was none: at the last look, and as it was logged */
    uint64_t looked_ns;        /* since when it is so */
};

/* The device thread (thread.c). Start: adopts a device on the caller's thread; if that fails, so
 * does the start. Stop: closes the device. */
int device_thread_start(struct fabric_host *h, struct error *err);
void device_thread_stop(struct fabric_host *h);

/* Wakes it; any thread may. */
static inline void host_wake(const struct fabric_host *h) {
    while (eventfd_write(h->wake_fd, 1) && errno == EINTR)
        ;
}

#endif
