// Measures multiply-adds that load an operand each, as register blocks of one block of output channels do: 14 chains of
// `rounds` in each work-item, their products those of 14 numbers, each for all lanes, and a vector of weights, which is
// loaded, too.
//
// x: 14 * 16 numbers, then 16 vectors of weights;  y: a vector of sums for each work-item. Any grid.
#include "lanes.clh"

__kernel void canary_loaded_products(__global const float* x, __global float* y, const int rounds) {
  V sum[14];
  #pragma unroll
  for (int i = 0; i < 14; i++) sum[i] = (V)(0.0f);
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    __global const float* number = x + (r & 15);
    const V weights = LOAD(r & 15, x + 14 * 16);
    #pragma unroll
    for (int i = 0; i < 14; i++) sum[i] = (V)(number[i * 16]) * weights + sum[i];
  }
  #pragma unroll
  for (int i = 1; i < 14; i++) sum[0] = fmax(sum[0], sum[i]);
  STORE(sum[0], get_global_id(0), y);
}
