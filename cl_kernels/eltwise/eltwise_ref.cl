// y = f(a, b), element by element with broadcasting, on tensors of floats, then the post-operations.
//
// Grid: one work-item a line (tensor.clh) of y, n of them. table: dims and line, views of y, a and b, code. LOAD_B
// reads b, which may have another element type TB where f is a power. Codes are those of post_codes.clh, 128 for a -
// floor(a / b) b and 129 for fmod. Error: half an ulp for + - * /, that of post_apply.clh for others; fmod is exact,
// 128 is fmod plus one addition.
#include "tensor.clh"

#ifndef TB
  #define TB T
#endif
#ifndef LOAD_B
  #define LOAD_B LOAD
#endif

static REAL eltwise_apply(const int code, const REAL a, const REAL b) {
  if (code < 128) return post_apply(code, a, b, 0.0f, 0.0f);
  const REAL r = fmod(a, b);
  return code == 128 && r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

__kernel void eltwise_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* restrict table,
                          POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  for (; at[RANK - 1] < end; at[RANK - 1]++) {
    const REAL r = eltwise_apply(b[VIEW], LOAD(BASE_OF(const T, in0), element(a, at)),
                                  LOAD_B(BASE_OF(const TB, in1), element(b, at)));
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
