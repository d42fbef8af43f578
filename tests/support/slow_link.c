/* SPDX-License-Identifier: Apache-2.0 */
/* A network of some latency between all ranks, through MPI's profiling interface: whoever waits for messages gets them
 * STRATA_SLOW_LINK_US microseconds late. A thread that waits sleeps, so that it takes no core from others. Load it with
 * LD_PRELOAD; nothing else of MPI changes. */
#include <mpi.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static void wait_for_the_network(void) {
  static __thread int precise = 0;
  const char* text = getenv("STRATA_SLOW_LINK_US");
  const double microseconds = text == NULL ? 0 : atof(text);
  if (microseconds <= 0) return;
  if (!precise) precise = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
  const double seconds = microseconds * 1e-6;
  struct timespec duration = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&duration, NULL);
}

int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  const int code = PMPI_Testall(count, requests, done, statuses);
  if (count > 0 && *done) wait_for_the_network();
  return code;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const int code = PMPI_Test(request, done, status);
  if (*done) wait_for_the_network();
  return code;
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  const int code = PMPI_Allreduce(send, receive, count, type, op, communicator);
  wait_for_the_network();
  return code;
}
