/* SPDX-License-Identifier: MIT */
/*
 * message.h - what the messages between workers of two daemons begin with.
 */
#ifndef RDMAD_OP_ENGINE_MESSAGE_H
#define RDMAD_OP_ENGINE_MESSAGE_H

/* The first byte of every SEND tells whose it is. */
enum op_message { OP_MESSAGE_NOTIFY = 1, OP_MESSAGE_CHANNEL = 2 };

#endif
