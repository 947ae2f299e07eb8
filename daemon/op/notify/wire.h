/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the message by which a lessee's daemon notifies the owner's.
 */
#ifndef RDMAD_OP_NOTIFY_WIRE_H
#define RDMAD_OP_NOTIFY_WIRE_H

#include <rdmad/abi.h>
#include <stdint.h>

/* What the SEND carries, little-endian. */
struct notify_message {
    uint8_t type; /* OP_MESSAGE_NOTIFY */
    uint8_t asks; /* 1: it is no notice, but asks what became of the first number of them */
    uint16_t reserved;
    uint32_t imm;
    uint32_t number; /* how many of this attach's messages with a notice were posted so far */
    uint32_t reserved1;
    uint64_t ref, length;
};
RDMAD_STATIC_ASSERT(sizeof(struct notify_message) == 32, "no padding");

/* The answer to one that asks: NOTIFY_KNOWN if the attach is known, and how many messages with a
 * notice, from the first that it ever posted, have none waiting any more: it was taken, or never
 * came. */
#define NOTIFY_KNOWN (UINT64_C(1) << 32)

#endif
