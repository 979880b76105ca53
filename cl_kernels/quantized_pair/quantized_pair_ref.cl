// y = saturate(t), t the integer nearest to a sum or a product of bytes with scales, halves to even.
//
// Grid: one work-item an element, n of them. table: dims, views of y, a and b, four numbers f (bits of floats).
// T        element type, uchar (default) or char
// PRODUCT  0 (default): t = fma(a, f0, fma(b, f1, f2));  1: t = (a - f2) (b - f3) f0 + f1, rounded behind each step
// Exact: the order of ONNX Runtime.
#ifndef T
  #define T uchar
#endif
#ifndef PRODUCT
  #define PRODUCT 0
#endif
#define SATURATE_(T) convert_##T##_sat_rte
#define SATURATE(T) SATURATE_(T)
#include "tensor.clh"

__kernel void quantized_pair_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  __global const int* f = b + VIEW;
  const float p = (float)BASE_OF(const T, in0)[element(a, at)], q = (float)BASE_OF(const T, in1)[element(b, at)];
#if PRODUCT
  // Without it a product and a sum are one operation, which rounds once.
  volatile float scaled = (p - as_float(f[2])) * (q - as_float(f[3])) * as_float(f[0]);
  const float t = scaled + as_float(f[1]);
#else
  const float t = fma(p, as_float(f[0]), fma(q, as_float(f[1]), as_float(f[2])));
#endif
  BASE_OF(T, out0)[element(y, at)] = SATURATE(T)(t);
}
