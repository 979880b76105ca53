// y = x, `count` floats in one ticket.
#include "tile.clh"

static void copy_test(__global const copy_test_desc* d, __global char** banks, __global char* scratch, const int ticket,
                      __global const post_step* post, const int posts) {
  for (int i = 0; i < d->count; i++) AT(float, banks, d->y)[i] = AT(const float, banks, d->x)[i];
}
#ifndef CLGRAPH_LIBRARY
__kernel void copy_test_alone(__global const copy_test_desc* d, __global char* bank) {
  __global char* banks[1] = {bank};
  copy_test(d, banks, 0, 0, 0, 0);
}
#endif
