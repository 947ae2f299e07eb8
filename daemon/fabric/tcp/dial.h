/* SPDX-License-Identifier: MIT */
/*
 * dial.h - links from when they are made until they are up; and the timer that ends a silent one.
 */
#ifndef RDMAD_FABRIC_TCP_DIAL_H
#define RDMAD_FABRIC_TCP_DIAL_H

#include "daemon/fabric/tcp/link.h"

int tcp_link_new(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                 struct fabric_blob *hello, struct error *err);
int tcp_link_open(struct fabric_link *l, const char *host, const struct fabric_blob *offer,
                  struct error *err);
void link_timer(struct tcp_link *l);

#endif
