/* SPDX-License-Identifier: MIT */
/*
 * identities.h - identities for daemons under test, of one CA.
 */
#ifndef RDMAD_TEST_IDENTITIES_H
#define RDMAD_TEST_IDENTITIES_H

/* DIR/node-0 to DIR/node-(count - 1), each for --identity, and the CA in DIR/ca. */
void make_identities(const char *dir, unsigned count);

#endif
