// y = f(a, b), element by element with broadcasting, on integers and bools.
//
// Grid: one work-item a line (tensor.clh) of y, n of them. table: dims and line, views of y, a and b, code: those of
// post_codes.clh, 128 for a modulus with the sign of b, 129 with the sign of a, 130 and, 131 or, 132 xor, 133 a shift
// to the left, 134 to the right. Division is towards zero, and 0 by zero. A negative exponent gives what is left of the
// fraction: 0, 1 or -1; a shift by a negative number, or by all bits, what is left of the sign: 0 or -1. Exact, modulo
// 2^(bits of T). TB (default T) is the type of b: exponents may have another.
#ifndef T
  #define T int
#endif
#include "tensor.clh"

#ifndef TB
  #define TB T
#endif

// C leaves open what the least integer divided by -1 is, and its remainder.
static int is_minus_one(const T v) { return (T)-1 < 0 && v == (T)-1; }

static T eltwise_quotient(const T a, const T b) { return b == 0 ? 0 : is_minus_one(b) ? (T)-(ulong)a : a / b; }

static T eltwise_remainder(const T a, const T b) { return b == 0 || is_minus_one(b) ? 0 : a % b; }

static T eltwise_power(const T base, const TB exponent) {
  if (exponent < 0) return base == 1 ? 1 : is_minus_one(base) ? (exponent & 1 ? -1 : 1) : 0;
  ulong result = 1, square = (ulong)base;
  for (ulong left = (ulong)exponent; left; left >>= 1, square *= square)
    if (left & 1) result *= square;
  return (T)result;
}

static T eltwise_integer(const int code, const T a, const TB b) {
  const T r = code == 128 || code == 129 ? eltwise_remainder(a, b) : 0;
  switch (code) {
    case POST_DIV: return eltwise_quotient(a, b);
    case POST_POW: return eltwise_power(a, b);
    case POST_PRELU: return a < 0 ? a * b : a;
    case 128: return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    case 129: return r;
    case 133: return (ulong)b < 8 * sizeof(T) ? (T)((ulong)a << b) : 0;
    case 134: return (ulong)b < 8 * sizeof(T) ? a >> b : a < 0 ? (T)-1 : 0;
  }
  return a;
}

__kernel void eltwise_int_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* restrict table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  // Loops of their own for what processors have vector instructions for: the choice is not made at every element.
#define EACH(expression) \
  for (; at[RANK - 1] < end; at[RANK - 1]++) { \
    const T p = BASE_OF(const T, in0)[element(a, at)]; \
    const TB q = BASE_OF(const TB, in1)[element(b, at)]; \
    BASE_OF(T, out0)[element(y, at)] = (T)(expression); \
  } \
  break;
  switch (b[VIEW]) {
    case POST_ADD: EACH((ulong)p + (ulong)q)
    case POST_SUB: EACH((ulong)p - (ulong)q)
    case POST_MUL: EACH((ulong)p * (ulong)q)
    case POST_MIN: EACH(p < q ? p : q)
    case POST_MAX: EACH(p > q ? p : q)
    case 130: EACH(p & q)
    case 131: EACH(p | q)
    case 132: EACH(p ^ q)
    default: EACH(eltwise_integer(b[VIEW], p, q))
  }
}
