/* SPDX-License-Identifier: MIT */
/*
 * instance.c - what is finished by the next poll: sources that have ended, ops that post refused;
 * and the time at which a timer may be due.
 */
#include "daemon/fabric/tcp/instance.h"
#include <assert.h>
#include <sys/epoll.h>
#include <unistd.h>

void tcp_timer_at(struct tcp *t, uint64_t at_ns) {
    if (at_ns < t->next_timer_ns)
        t->next_timer_ns = at_ns;
}

void source_close(const struct tcp *t, int fd) {
    epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

void source_end(struct tcp *t, struct source *s) {
    assert(s->destroy && list_empty(&s->ended));
    list_append(&t->ended, &s->ended);
}

void sources_destroy(struct tcp *t) {
    struct list *node;
    while ((node = list_pop(&t->ended))) {
        struct source *s = list_entry(node, struct source, ended);
        s->destroy(s);
    }
}

void op_complete(struct tcp *t, struct fabric_op *op, int status, uint8_t outcome) {
    op->status = status;
    op->outcome = outcome;
    t->progress++;
    t->env->complete(t->env->user, op);
}

void op_complete_refused(struct tcp *t, struct fabric_op *op) {
    const void *fault = op->fault;
    assert(!list_empty(&op->node));
    list_remove(&op->node);
    op_complete(t, op, op->status, op->outcome);
    if (fault)
        t->env->memory_fault(t->env->user, fault);
}
