// y = factor * x + (the instance's shift), `chunk` floats a ticket; then the post-operations relu and multiply.
#include "tile.clh"

static void scale_add_test(__global const scale_add_test_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  __global const float* x = AT(const float, banks, d->x);
  __global float* y = AT(float, banks, d->y);
  __global float* staged = (__global float*)scratch;
  const int first = ticket * d->chunk, n = min(d->chunk, d->count - first);
  for (int i = 0; i < n; i++) staged[i] = d->factor * x[first + i];
  shifts_test(d->id, staged, n);
  for (int p = 0; p < posts; p++)
    for (int i = 0; i < n; i++)
      staged[i] = post[p].code == POST_RELU ? max(staged[i], 0.0f)
                                            : staged[i] * AT(const float, banks, post[p].operand)[first + i];
  for (int i = 0; i < n; i++) y[first + i] = staged[i];
}
#ifndef CLGRAPH_LIBRARY
__kernel void scale_add_test_alone(__global const scale_add_test_desc* d, __global char* bank, __global char* scratch) {
  __global char* banks[1] = {bank};
  scale_add_test(d, banks, scratch, get_group_id(0), 0, 0);
}
#endif
