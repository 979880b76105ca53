// y = f(a, b), element by element with broadcasting, on integers and bools.
//
// Grid: one work-item an element of y, n of them. table: dims, views of y, a and b, code: those of post_codes.clh, 128
// for a modulus with the sign of b, 129 with the sign of a, 130 and, 131 or, 132 xor. Division is towards zero, and 0 by
// zero. A power is exact where it fits; a negative exponent gives what is left of the fraction: 0, 1 or -1. Exact.
#ifndef T
  #define T int
#endif
#include "tensor.clh"

static long eltwise_power(const long base, const long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  long result = 1, square = base;
  for (long left = exponent; left; left >>= 1, square *= square)
    if (left & 1) result *= square;
  return result;
}

static T eltwise_integer(const int code, const T a, const T b) {
  switch (code) {
    case POST_ADD: return a + b;
    case POST_SUB: return a - b;
    case POST_MUL: return a * b;
    case POST_DIV: return b == 0 ? 0 : a / b;
    case POST_MIN: return a < b ? a : b;
    case POST_MAX: return a > b ? a : b;
    case POST_POW: return (T)eltwise_power((long)a, (long)b);
    case POST_PRELU: return a < 0 ? a * b : a;
    case 128: return b == 0 ? 0 : (a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b);
    case 129: return b == 0 ? 0 : a % b;
    case 130: return a & b;
    case 131: return a | b;
    case 132: return a ^ b;
  }
  return a;
}

__kernel void eltwise_int_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  const T r = eltwise_integer(b[VIEW], BASE_OF(const T, in0)[element(a, at)], BASE_OF(const T, in1)[element(b, at)]);
  BASE_OF(T, out0)[element(y, at)] = r;
}
