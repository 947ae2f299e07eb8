/* SPDX-License-Identifier: MIT */
/*
 * doctor.h - the checks of rdmactl doctor, and how they say what they saw.
 *
 * A check says good, note (nothing to do, but worth knowing), warning, bad, or skipped (it cannot
 * be known here), in one sentence, and with exam_next() what to do about it. It may say several
 * things, for instance one for each device. It never fails itself: that something cannot be read is
 * a result, too.
 */
#ifndef RDMACTL_DOCTOR_H
#define RDMACTL_DOCTOR_H

#include "rdmactl/cli.h"
#include <sys/types.h>

enum level { GOOD, NOTE, WARNING, BAD, SKIPPED };

struct exam {
    const char *root;         /* before /sys, /proc and /dev; "" but in tests */
    const json_t *status;     /* NULL: the daemon did not answer */
    const json_t *config;     /* of config.show; NULL: no answer */
    const json_t *devices;    /* the whole answer of device.show; NULL: none */
    const json_t *limits;     /* the rows of limit.show; NULL: no answer */
    struct failure why;       /* why status is NULL */
    struct failure no_device; /* why devices is NULL */
    double answer_ms;         /* of status */
    const char *check;        /* the one that speaks */
    json_t *rows;
    bool bad;
};

typedef void doctor_check(struct exam *e);

/* ---- doctor.c ------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) void exam_say(struct exam *e, enum level level,
                                                    const char *format, ...);
/* What to do about what was said last. */
__attribute__((format(printf, 2, 3))) void exam_next(struct exam *e, const char *format, ...);

/* A fact of status; NULL when there is none. inner may be NULL. */
const json_t *exam_fact(const struct exam *e, const char *outer, const char *inner);
const char *exam_fact_text(const struct exam *e, const char *outer, const char *inner);
/* A setting of the daemon; fallback without one. */
double exam_setting(const struct exam *e, const char *key, double fallback);
bool exam_uses_verbs(const struct exam *e);

/* Of files under root. The first line; false when it cannot be read. */
bool exam_first_line(const struct exam *e, const char *path, char *buf, size_t size);
/* The rest of the first line that starts with key. */
bool exam_line_with(const struct exam *e, const char *path, const char *key, char *buf,
                    size_t size);
/* Names in a directory, in order; more than there is room for are left out. */
struct exam_names {
    unsigned count;
    char name[32][64];
};
unsigned exam_names_in(const struct exam *e, const char *path, struct exam_names *out);

/* ---- doctor_daemon.c: the daemon and its sockets --------------------------------------------- */

doctor_check doctor_check_runtime_dir, doctor_check_control, doctor_check_client_socket,
    doctor_check_permission, doctor_check_version;
doctor_check doctor_check_fabric, doctor_check_peers, doctor_check_listen, doctor_check_identity,
    doctor_check_fds, doctor_check_limits, doctor_check_own_limits, doctor_check_workers,
    doctor_check_retries;

/* ---- doctor_rdma.c: devices, as /sys, /dev and /proc tell of them ---------------------------- */

doctor_check doctor_check_devices, doctor_check_modules, doctor_check_nodes, doctor_check_ports,
    doctor_check_gids, doctor_check_memlock;

/* ---- doctor_machine.c ------------------------------------------------------------------------ */

doctor_check doctor_check_memory, doctor_check_hugepages, doctor_check_congestion;

#endif
