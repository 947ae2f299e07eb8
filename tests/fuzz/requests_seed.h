/* SPDX-License-Identifier: MIT */
/*
 * requests_seed.h - an input of fuzz_requests (requests_moves.h), put together move by move: what
 * the seeds are written with.
 */
#ifndef RDMAD_TESTS_FUZZ_REQUESTS_SEED_H
#define RDMAD_TESTS_FUZZ_REQUESTS_SEED_H

#include "tests/fuzz/requests_moves.h"
#include <rdmad/wire.h>

#define AT(message, field) offsetof(struct rdmad_##message##_req, field)
#define FAR_LEASE "rdmad://far:7472/lease/5?key=000102030405060708090a0b0c0d0e0f"

void begin(unsigned how); /* REQUESTS_*; what there was is forgotten */
int write_seed(const char *dir, const char *name);

void byte(unsigned b);
void move(unsigned what, unsigned who);
void move_with(unsigned what, unsigned number);
void settle(void);
void prepare(unsigned nth, unsigned how);
void peer(unsigned nth, unsigned how);

/* A packet, and the runs of its body. */
void ask_how(unsigned who, unsigned type, unsigned how);
void ask(unsigned who, unsigned type);
void ask_about(unsigned who, unsigned type, enum thing kind, unsigned nth);
void with(size_t at, uint64_t number);
void with32(size_t at, uint32_t number);
void with_text(size_t at, const char *text);
void with_thing(size_t at, enum thing kind, unsigned nth);

/* What many seeds begin with. */
void offer_resume(unsigned who);
void make_pool(unsigned who); /* of 64 KiB, ready */
void terms(size_t at, const char *name, uint32_t rights, uint32_t flags);
void grant(unsigned who, const char *name);
void attach(unsigned who, unsigned nth);
void attach_text(unsigned who, const char *uri);
void listen_at(unsigned type, unsigned who, const char *name, uint64_t budget);
void listen_as(unsigned who, const char *name, uint64_t budget);
void request(unsigned who, const char *uri); /* NULL: the last service's */
void connect_to(unsigned who, const char *uri, uint32_t kind);
void accept_one(unsigned who);
void delegate(unsigned who, uint64_t length);
void come_back(unsigned who, unsigned nth); /* by the nth proof from the last */

#endif
