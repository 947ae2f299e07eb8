/* SPDX-License-Identifier: MIT */
/*
 * procs.h - what /proc says about a process.
 */
#ifndef RDMAD_TEST_PROCS_H
#define RDMAD_TEST_PROCS_H

#include <stdint.h>
#include <sys/types.h>

uint64_t process_rss_bytes(pid_t pid);
uint64_t process_peak_bytes(pid_t pid); /* the most that was ever resident */
uint64_t process_cpu_ticks(pid_t pid);  /* utime + stime */

#endif
