/* SPDX-License-Identifier: MIT */
/*
 * answer.h - what a link hears from its target: these functions are members of its role.
 */
#ifndef RDMAD_FABRIC_TCP_ANSWER_H
#define RDMAD_FABRIC_TCP_ANSWER_H

#include "daemon/fabric/tcp/conn.h"

const char *answer_frame(struct tcp_conn *c, const struct frame *f, const uint8_t *payload);
const char *answer_begin(struct tcp_conn *c, const struct frame *f, const uint8_t *head);
void answer_rx_fault(struct tcp_conn *c, const void *address);
void answer_end(struct tcp_conn *c);

#endif
