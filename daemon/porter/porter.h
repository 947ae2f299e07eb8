/* SPDX-License-Identifier: MIT */
/*
 * porter.h - the porter's process.
 */
#ifndef RDMAD_PORTER_PORTER_H
#define RDMAD_PORTER_PORTER_H

/* Its main. Returns its exit code when the daemon is gone. */
int porter_run(int argc, char **argv);

#endif
