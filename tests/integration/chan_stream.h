/* SPDX-License-Identifier: MIT */
/*
 * chan_stream.h - a channel between two threads, with a session each that outlives its daemon: one
 * sends numbered messages of all lengths, several at a time, the other receives them. At the end it
 * is known of each what its sender heard, and how often it came.
 */
#ifndef RDMAD_TEST_CHAN_STREAM_H
#define RDMAD_TEST_CHAN_STREAM_H

#include "tests/support/harness.h"
#include <stdint.h>

struct chan_stream;

struct chan_stream_sum {
    uint64_t done, unknown, untouched, received;
};

/* The sender at one daemon, the receiver and the service at another, or the same. Of the two ends
 * the one that sends is connected, or, backwards, the one that receives. */
struct chan_stream *chan_stream_start(struct tdaemon *sender, struct tdaemon *receiver,
                                      bool backwards);
/* From now on the network may be away for longer than a SEND may take (op.default_timeout_ms). */
void chan_stream_may_time_out(struct chan_stream *s);
/* How many messages have come. */
uint64_t chan_stream_received(const struct chan_stream *s);
/* Waits until more come than had when this was called. */
void chan_stream_expect_progress(const struct chan_stream *s, const char *when);
/* The longest time without a message since somebody last asked. */
double chan_stream_longest_ms(struct chan_stream *s);
/* The sender closes the channel in order, and the receiver has heard so. What is done came once,
 * what is unknown at most once, what is untouched never, and all in their order: or the case ends.
 */
struct chan_stream_sum chan_stream_stop(struct chan_stream *s);

#endif
