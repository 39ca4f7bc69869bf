"""fdprof.kernel_names: names of kernels as libraries compile them, by the name that a person uses."""

import pytest

from fdprof.kernel_names import short_name


@pytest.mark.parametrize(
    ("expected", "kernel"),
    [
        ("add", "void at::add<4, Op<float> >(int, float*)"),
        ("k", "k()"),
        ("k", "ns::k(int)"),
        ("k", "void k<(bool)1, (ns::Enum)0>(int*)"),
        # nested templates, of PyTorch, Paddle and CUTLASS
        (
            "vectorized_elementwise_kernel",
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, "
            "3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
        ),
        (
            "VectorizedBroadcastKernel",
            "void phi::funcs::VectorizedBroadcastKernel<float, phi::kps::IdentityFunctor<float, float>, 1, 1>"
            "(phi::Array<float const*, 1>)",
        ),
        (
            "device_kernel",
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>, X> >(X::Params)",
        ),
        # unnamed namespaces, as g++ and as nvcc write them
        ("softmax", "void (anonymous namespace)::softmax<float, (int)4>(float*)"),
        ("k", "(anonymous namespace)::k(int)"),
        ("k", "at::native::(anonymous namespace)::k(std::vector<(anonymous namespace)::T>)"),
        ("k", "void <unnamed>::k<int>(int)"),
        # lambdas: in a template, in the signature, and as the kernel itself
        (
            "elementwise_kernel",
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<F<float> >(at::TensorIteratorBase&"
            ", F<float> const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl<F<float> >(at::TensorIteratorBase&, "
            "F<float> const&)::{lambda(int)#1})",
        ),
        ("k", "void k<main::{lambda(int)#2}>(main::{lambda(int)#2})"),
        ("operator()", "main::{lambda(int)#1}::operator()(int) const"),
        ("inner", "void outer<A>(B)::inner<C>(D)"),
        # operators
        ("operator()", "Functor<int>::operator()(int)"),
        ("operator<", "bool ns::operator< <int>(A<int> const&)"),
        ("operator<<", "ns::operator<<(int)"),
        ("operator->", "ns::A::operator->()"),
        ("k", "void k<&(ns::operator<(ns::A const&, ns::A const&))>(int)"),
        ("k", "void k<&ns::operator>, 3>(int)"),
        ("k", "void k<((1)>(2)), (3 < 4)>(int)"),
        # what stands before and behind
        ("k", "unsigned int ns::k<3>(int)"),
        ("k", "decltype(auto) k<3>(int)"),
        ("update_kernel", "update_kernel(int*, long) [clone .constprop.0]"),
    ],
)
def test_a_kernel_goes_by_its_own_name(expected, kernel):
    """Neither namespace, template arguments, signature nor what it returns."""
    assert expected == short_name(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        "triton_poi_fused_add_0",
        "triton_red_fused__to_copy_mean_pow_3d4",
        "cutlass_80_tensorop_s1688gemm_128x128_nn_align4",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_segment_k_off_kernel__5x_cublas",
        "nvjet_hsh_128x64_64x6_2x1_v_bz_TNT",
        "decode kernel",
        "_ZN7cutlass6KernelE",
        "a<b",
        "a->b",
        "k(int",
        "k)",
        "k[2>1]<",
        "",
        "()",
        "<int>",
        "void ",
        "operator()",
    ],
)
def test_a_name_that_is_no_declaration_is_left_as_it_is(kernel):
    """Triton, CUTLASS and cuBLAS name their kernels themselves; what does not add up is not guessed at."""
    assert kernel == short_name(kernel)
