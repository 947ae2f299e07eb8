/* SPDX-License-Identifier: MIT */
/*
 * stray.c - a queue of descriptors and a thread that closes them.
 *
 * The thread begins with the first stray and is never joined: a close that waits ends with the
 * process. Without memory for the thread the descriptors wait for the next that comes. The queue is
 * a ring of STRAYS_MAX; what comes when it is full is kept open for good, which strays_full lets
 * callers avoid.
 */
#include "daemon/base/stray.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int queue[STRAYS_MAX];
static unsigned first, count; /* the first of them is being closed, perhaps */
static bool running;

/* A socket's reset waits for nobody; what is no socket does not mind. */
static void close_one(int fd) {
    struct linger off = {0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
    close(fd);
}

static void *close_all(void *arg) {
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!count)
            pthread_cond_wait(&more, &lock);
        int fd = queue[first];
        pthread_mutex_unlock(&lock);
        close_one(fd);
        pthread_mutex_lock(&lock);
        first = (first + 1) % STRAYS_MAX;
        count--;
    }
    return NULL;
}

/* Signals are the control thread's. */
static bool start_thread(void) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, close_all, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return false;
    pthread_setname_np(thread, "rdmad-strays");
    pthread_detach(thread);
    return true;
}

void stray_close(int fd) {
    if (fcntl(fd, F_GET_SEALS) >= 0) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&lock);
    if (count < STRAYS_MAX)
        queue[(first + count++) % STRAYS_MAX] = fd;
    running = running || start_thread();
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}

bool strays_full(void) {
    pthread_mutex_lock(&lock);
    bool full = count > STRAYS_MAX / 2; /* a client's packet still fits */
    pthread_mutex_unlock(&lock);
    return full;
}
