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

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const int code = PMPI_Waitall(count, requests, statuses);
  if (count > 0) wait_for_the_network();
  return code;
}

int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                 MPI_Datatype receive_type, MPI_Comm communicator) {
  const int code = PMPI_Alltoall(send, send_count, send_type, receive, receive_count, receive_type, communicator);
  wait_for_the_network();
  return code;
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  const int code = PMPI_Allreduce(send, receive, count, type, op, communicator);
  wait_for_the_network();
  return code;
}
