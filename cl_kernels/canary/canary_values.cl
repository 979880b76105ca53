// Computes with what CPUs have instructions of their own for, to see whether a driver and its device do it rightly.
//
// y[k * count + i] of x[i] and n[i] for k = 0 .. 3, and j[k * count + i] for k = 0 .. 7, where the last row is two bytes
// an element. Vectors also go through a function that is not inlined: kernels, functions and the library of built-in
// functions must agree how vectors are passed.
//
// grid: (count / SIMD)
//
// Error: a built-in function of OpenCL C has at most 4 ulp (OpenCL C, relative error as ULPs), a division 2.5; row 0 is a
// sum of two terms of one sign, 7 ulp; rows 1 and 2 have at most 8 ulp; everything else is exact.
#include "lanes.clh"

__attribute__((noinline)) static V mixed(const V x, const I n, const V c) {
  return fmax(x, c) + exp(-x) * mad(x, x, TO(V)(n));
}

__kernel void canary_values(__global const float* x, __global const int* n, __global float* y, __global int* j,
                            const int count) {
  const int i = get_global_id(0);
  const V v = LOAD(i, x);
  const I m = LOAD(i, n);
  STORE(mixed(v, m & 7, (V)(0.25f)), i, y);
  STORE(sqrt(fabs(v)) / (1.0f + fabs(v)), i, y + count);
  STORE(log(fabs(v) + 1.0f), i, y + 2 * count);
  STORE(floor(v), i, y + 3 * count);
  STORE(JOIN(TO(I), _sat)(v * 1e9f), i, j);
  STORE(max(m, (I)(3)) >> (m & 7), i, j + count);
  STORE(clz(m), i, j + 2 * count);
  STORE((I)(popcount(m)), i, j + 3 * count);
  STORE(mul_hi(m, m), i, j + 4 * count);
  STORE(rotate(m, (I)(9)) ^ (m & ~(m >> 3)), i, j + 5 * count);
  STORE(TO(I)(JOIN(TO(U), _sat_rte)(v * 50.0f)), i, j + 6 * count);
  __global half* h = (__global half*)(j + 7 * count);
  for (int k = 0; k < SIMD; k++) vstore_half(x[SIMD * i + k], 2 * (SIMD * i + k), h);
}
