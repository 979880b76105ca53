// p[i] += SHIFT for i < n. SHIFT (1): an instance constant.
#include "tile.clh"
#ifndef SHIFT
  #define SHIFT 1
#endif

NOINLINE static void shift_test(__global float* p, const int n) {
  for (int i = 0; i < n; i++) p[i] += SHIFT;
}
#ifndef CLGRAPH_LIBRARY
__kernel void shift_test_alone(__global float* p, const int n) { shift_test(p, n); }
#endif
