/* SPDX-License-Identifier: MIT */
/*
 * work_queue - tasks for any number of workers, on this machine or others, without a server process
 * in their way: a worker claims the next task by fetch-and-add, reads it, writes its result, and at
 * the end notifies the owner of how many it did.
 *
 *   work_queue serve NAME COUNT    publishes COUNT tasks, waits for them, prints the sum of results
 *   work_queue work URI            rdmad://HOST:PORT/NAME, or rdmad:///NAME on the same daemon
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

struct queue {
    uint64_t next; /* the first task that nobody claimed */
    uint64_t count;
    uint64_t task[MOST], result[MOST];
};

static void fail(const rdmad_session *s) {
    errx(1, "%s", rdmad_last_error(s));
}

static int serve(const char *name, uint64_t count) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;
    uint64_t sum = 0, done = 0;
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool))
        fail(NULL);
    struct queue *q = rdmad_alloc(pool, sizeof(*q));
    memset(q, 0, sizeof(*q));
    q->count = count;
    for (uint64_t i = 0; i < count; i++)
        q->task[i] = i;
    terms.name = name;
    terms.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    terms.flags = RDMAD_LEASE_KEEP_ALIVE;
    if (rdmad_lease_grant(s, q, sizeof(*q), &terms, &lease))
        fail(s);
    printf("%s\n", rdmad_lease_uri(lease));
    fflush(stdout);
    while (done < count) { /* a worker's results are there before its notification */
        uint32_t did;
        if (rdmad_wait_notified(lease, -1, &did, NULL))
            fail(s);
        done += did;
    }
    for (uint64_t i = 0; i < count; i++)
        sum += q->result[i];
    printf("%llu\n", (unsigned long long)sum);
    rdmad_close(s);
    return 0;
}

static int work(const char *uri) {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *queue;
    uint64_t i, done = 0;
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 4096, 0, &pool) ||
        rdmad_lease_attach(s, uri, 0, &queue))
        fail(NULL);
    uint64_t *count = rdmad_alloc(pool, 8), *task = rdmad_alloc(pool, 8);
    if (rdmad_read(queue, offsetof(struct queue, count), count, 8))
        fail(s);
    for (;; done++) {
        if (rdmad_fetch_add(queue, offsetof(struct queue, next), 1, &i))
            fail(s);
        if (i >= *count || i >= MOST)
            break;
        if (rdmad_read(queue, offsetof(struct queue, task) + i * 8, task, 8))
            fail(s);
        *task *= *task;
        if (rdmad_write(queue, offsetof(struct queue, result) + i * 8, task, 8))
            fail(s);
    }
    /* The owner waits for who did something; who came too late would find nobody. */
    if (done && rdmad_write_notify(queue, 0, task, 0, (uint32_t)done))
        fail(s);
    printf("%llu tasks done\n", (unsigned long long)done);
    rdmad_close(s);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "serve") && atoi(argv[3]) > 0 && atoi(argv[3]) <= MOST)
        return serve(argv[2], (uint64_t)atoi(argv[3]));
    if (argc == 3 && !strcmp(argv[1], "work"))
        return work(argv[2]);
    errx(2, "usage: work_queue serve NAME COUNT (1 to %d) | work URI", MOST);
}
